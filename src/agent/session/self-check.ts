import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { CommandResult, CommandFrame } from '../../protocol/index.ts';
import type { AnswerChannel } from '../core/connection/answer-channel.ts';
import type { LiveQueries } from '../core/connection/connection-options.ts';
import type { HealthCheck, HealthReport } from '../os/supervision/messages.ts';

/**
 * What the watchdog asks a release before and after an upgrade: whether it can do what an agent is for. Each check goes the
 * way that the server's own queries and commands go, as far as that is possible without the server.
 */

export interface SelfCheckParts {
  queries: Pick<LiveQueries, 'run'>;
  /** Writes to the journal of commands. Rejects where that is not possible. */
  checkLedger: () => Promise<void>;
}

type Checks = Record<HealthCheck, () => Promise<void>>;

const CHECK_MS = 10_000;
/** So many logs are tried until one can be read. */
const LOGS_TRIED = 3;
const FAULT_MAX = 200;

let lastId = 0;

export async function selfCheck({ queries, checkLedger }: SelfCheckParts): Promise<HealthReport> {
  const checks: Checks = {
    live_query: async () => void (await logsOf(queries)),
    event_log: () => readOneLog(queries),
    command_ledger: checkLedger,
  };
  const report: HealthReport = { works: [], faults: [] };
  // One after another: a query that hangs ends with its time, and the others still say what they can.
  for (const check of ['live_query', 'event_log', 'command_ledger'] as const) {
    try {
      await within(CHECK_MS, checks[check]());
      report.works.push(check);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      report.faults.push({ check, message: message.slice(0, FAULT_MAX) });
    }
  }
  return report;
}

const Logs = z.object({ logs: z.array(z.object({ name: z.string() })) });

async function logsOf(queries: SelfCheckParts['queries']): Promise<z.infer<typeof Logs>['logs']> {
  const { output } = await ask(queries, 'eventlogs.list', {});
  return Logs.parse(output).logs;
}

async function readOneLog(queries: SelfCheckParts['queries']): Promise<void> {
  const logs = await logsOf(queries);
  let fault: unknown = new Error('This machine has no event log that can be read.');
  for (const { name } of logs.slice(0, LOGS_TRIED)) {
    try {
      await ask(queries, 'eventlogs.query', { name, page: 1, limit: 1 });
      return;
    } catch (error) {
      fault = error;
    }
  }
  throw fault;
}

/** A live query that is answered to this process in place of the server. */
async function ask(
  queries: SelfCheckParts['queries'],
  type: string,
  payload: unknown,
): Promise<CommandResult> {
  let result: CommandResult | undefined;
  const channel: AnswerChannel = {
    rows: async () => {},
    progress: async () => {},
    result: async (one) => void (result = one),
  };
  const frame: CommandFrame = {
    id: `self-check-${(lastId += 1)}`,
    type,
    payload,
    epoch: 0,
    deadline: new Date(clock.now() + CHECK_MS).toISOString(),
    attempt: 1,
  };
  await queries.run(frame, channel);
  if (result?.status === 'succeeded') return result;
  throw new Error(result?.error?.message ?? `${type} was not answered.`);
}

async function within(ms: number, check: Promise<void>): Promise<void> {
  const timer = new AbortController();
  const late = clock.sleep(ms, { signal: timer.signal }).then(() => {
    throw new Error(`It gave no answer within ${ms / 1000} s.`);
  });
  // The sleep is ended below, and rejects then.
  late.catch(() => {});
  try {
    await Promise.race([check, late]);
  } finally {
    timer.abort();
  }
}
