import { clock } from '../../../clock.ts';
import { AgentErrorCode, type EndedProcess } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { printable } from '../../core/plain-text.ts';
import { runSystemProgram } from '../../os/child-process.ts';
import { isRunning, type KnownProcess, processMark } from '../../os/process-group.ts';
import { type IdentifiedProcess, isSameStart, withAncestors } from '../../os/processes/process-reader.ts';

/** How a process is asked to end, and how it is forced to. */
export interface ProcessSignals {
  /** What identifies the process now; empty if there is none. */
  mark(pid: number): Promise<string>;
  isRunning(known: KnownProcess): Promise<boolean>;
  /** False if the system cannot ask this process. Throws if it refuses. */
  ask(pid: number): Promise<boolean>;
  force(pid: number): Promise<void>;
  /** The agent itself. */
  readonly ownPid: number;
}

/** For so long, a process that was asked to end may take to do so. */
export const GRACE_SECONDS = 5;
/** For so long, the agent waits for the system to end a process. */
const FORCED_MS = 3000;
const POLL_MS = 50;

/**
 * Ends a process: asks it, and forces it after the grace period. The start time tells the process that a person saw from
 * a later one with the same number. What has begun is carried through, also if the connection ends meanwhile.
 * @param read  reads all processes
 */
export async function endProcess(
  { pid, startedAt }: { pid: number; startedAt: string },
  {
    read,
    signals,
    isLate,
  }: { read: () => Promise<IdentifiedProcess[]>; signals: ProcessSignals; isLate: () => boolean },
): Promise<Pick<EndedProcess, 'outcome' | 'graceSeconds'> & { process: IdentifiedProcess }> {
  // Read first, so that it belongs to the process that is looked at now, or to none.
  const mark = await signals.mark(pid);
  const all = await read();
  const process = all.find((one) => one.pid === pid);
  if (process === undefined || process.state === 'zombie' || mark === '') {
    throw new AgentError(
      AgentErrorCode.processNotFound,
      process === undefined
        ? `This device has no process ${pid} now.`
        : `The process ${pid} has already ended.`,
    );
  }
  assertSame(process, startedAt);
  assertEndable(process, withAncestors(signals.ownPid, all));
  const known = { pid, mark };
  // Nothing ends a process after the time in which a person was told how it went.
  if (isLate()) throw new AgentError(AgentErrorCode.timedOut, 'The request came too late.');
  if (!(await signals.isRunning(known))) {
    throw new AgentError(AgentErrorCode.processNotFound, `The process ${pid} has already ended.`);
  }
  const isAsked = await signals.ask(pid);
  const graceSeconds = isAsked ? GRACE_SECONDS : 0;
  if (await hasEnded(known, graceSeconds * 1000, signals)) return { outcome: 'ended', graceSeconds, process };
  await signals.force(pid);
  const outcome = (await hasEnded(known, FORCED_MS, signals)) ? 'killed' : 'still_running';
  return { outcome, graceSeconds, process };
}

function assertSame({ pid, name, startedAt }: IdentifiedProcess, seen: string): void {
  if (isSameStart(startedAt, Date.parse(seen))) return;
  const since = startedAt === undefined ? '' : `, which started at ${new Date(startedAt).toISOString()}`;
  throw new AgentError(
    AgentErrorCode.processReplaced,
    `The process ${pid} is another one now: ${printable(name, 100)}${since}.`,
  );
}

function assertEndable({ pid, name, isCritical }: IdentifiedProcess, own: ReadonlySet<number>): void {
  const named = `${printable(name, 100)} (${pid})`;
  if (isCritical === true || pid === 1) {
    throw new AgentError(AgentErrorCode.processProtected, `The machine cannot run without ${named}.`);
  }
  if (own.has(pid)) {
    throw new AgentError(AgentErrorCode.processProtected, `${named} is the agent, or has started it.`);
  }
}

async function hasEnded(known: KnownProcess, withinMs: number, signals: ProcessSignals): Promise<boolean> {
  const until = clock.monotonic() + withinMs;
  for (;;) {
    if (!(await signals.isRunning(known))) return true;
    if (clock.monotonic() >= until) return false;
    await clock.sleep(POLL_MS);
  }
}

/** The signals of the system that the agent runs on. */
export function systemSignals(isWindows: boolean): ProcessSignals {
  const common = { mark: processMark, isRunning, ownPid: process.pid };
  if (!isWindows) {
    return {
      ...common,
      ask: async (pid) => {
        send(pid, 'SIGTERM');
        return true;
      },
      force: async (pid) => send(pid, 'SIGKILL'),
    };
  }
  return {
    ...common,
    // Programs without a window cannot be asked, which `taskkill` reports as an error.
    ask: (pid) =>
      runSystemProgram('taskkill', ['/PID', String(pid)]).then(
        () => true,
        () => false,
      ),
    force: async (pid) => {
      try {
        await runSystemProgram('taskkill', ['/PID', String(pid), '/F']);
      } catch (error) {
        throw new AgentError(AgentErrorCode.failed, saidBy(error));
      }
    },
  };
}

function send(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    // It has ended by itself, which is seen next.
    if (code === 'ESRCH') return;
    const reason = code === 'EPERM' ? 'The agent lacks the right to end this process.' : String(error);
    throw new AgentError(AgentErrorCode.failed, reason);
  }
}

/** The words of a program that has failed. */
function saidBy(error: unknown): string {
  const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
  return said === '' ? String(error) : said;
}
