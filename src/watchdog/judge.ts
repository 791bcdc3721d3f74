import { z } from 'zod';
import { HealthCheck, type HealthReport } from '../../agent/os/supervision/messages.ts';

/** Whether a release on trial has proved itself. Pure; all times are of a clock that nobody sets. */

export interface TrialLimits {
  firstHeartbeatMs: number;
  heartbeatsMs: number;
  heartbeatsInARow: number;
  unservedMs: number;
}

export interface TrialFacts {
  /** When the current period of patience began: with the start, or when the server was last known to serve nobody. */
  periodFrom: number;
  /** How long the server has served nobody, in all. */
  unservedMs: number;
  /** Whether the server was served when it was asked last; at the start it counts as served. */
  wasServed: boolean;
  /** The version that the program has named. */
  version: string | undefined;
  /** What the release before could do, so that this one must be able to do it as well. */
  expected: readonly Ability[];
  /** Whether the socket is open. */
  isConnected: boolean;
  /** Acknowledged heartbeats over one connection; over the socket only, where the release before had one. */
  inARow: number;
  /** What the release has proved when it was asked last, and why it could not prove the rest. */
  health: HealthReport;
}

/** What the release before an upgrade could do. `socket`: heartbeats were acknowledged over its socket. */
export const Ability = z.enum(['socket', ...HealthCheck.options]);
export type Ability = z.infer<typeof Ability>;

export type Judgement =
  | { is: 'open' }
  | { is: 'healthy' }
  /** Time is up. Whether that is the fault of the release depends on whether the server serves this machine at all. */
  | { is: 'ask_server' }
  | { is: 'failed'; code: string; message: string };

export const startFacts = (now: number, expected: readonly Ability[] = []): TrialFacts => ({
  periodFrom: now,
  unservedMs: 0,
  wasServed: true,
  version: undefined,
  expected,
  isConnected: false,
  inARow: 0,
  health: { works: [], faults: [] },
});

/** What the release before could do and this one has not proved yet, beside the socket. */
export const unproved = ({ expected, health }: TrialFacts): HealthCheck[] =>
  HealthCheck.options.filter((check) => expected.includes(check) && !health.works.includes(check));

/** Whether a heartbeat that is acknowledged now says that the release is connected as the one before was. */
export const counts = ({ expected, isConnected }: TrialFacts): boolean =>
  isConnected || !expected.includes('socket');

export function judge(
  facts: TrialFacts,
  expectedVersion: string,
  now: number,
  limits: TrialLimits,
): Judgement {
  const { version, inARow, periodFrom } = facts;
  if (version !== undefined && version !== expectedVersion) {
    const message = `The release ${expectedVersion} says that it is ${version}.`;
    return { is: 'failed', code: 'WRONG_VERSION', message };
  }
  const isConnected = version !== undefined && inARow >= limits.heartbeatsInARow;
  if (isConnected && unproved(facts).length === 0) return { is: 'healthy' };
  const limitMs = inARow === 0 ? limits.firstHeartbeatMs : limits.heartbeatsMs;
  return now - periodFrom > limitMs ? { is: 'ask_server' } : { is: 'open' };
}

/** What follows from the answer to the question whether the server serves this machine. */
export function afterQuestion(
  facts: TrialFacts,
  isServed: boolean,
  now: number,
  limits: TrialLimits,
): { facts: TrialFacts; judgement: Judgement } {
  if (isServed && facts.wasServed) {
    return { facts, judgement: { is: 'failed', ...lackOf(facts, limits) } };
  }
  // A server that is back gets a whole period, because the release may wait before it connects again.
  const unservedMs = facts.unservedMs + (now - facts.periodFrom);
  const next = { ...facts, periodFrom: now, wasServed: isServed, unservedMs };
  if (!isServed && unservedMs > limits.unservedMs) {
    const message = 'The server did not serve this machine during the whole trial.';
    return { facts: next, judgement: { is: 'failed', code: 'SERVER_UNREACHABLE', message } };
  }
  return { facts: next, judgement: { is: 'open' } };
}

function lackOf(facts: TrialFacts, limits: TrialLimits): { code: string; message: string } {
  const { inARow, expected } = facts;
  const seconds = Math.round((inARow === 0 ? limits.firstHeartbeatMs : limits.heartbeatsMs) / 1000);
  const over = expected.includes('socket') ? ' over its socket' : '';
  if (inARow === 0) {
    const message = `The server acknowledged no heartbeat of the release${over} within ${seconds} s.`;
    return { code: 'NOT_CONNECTED', message };
  }
  if (inARow < limits.heartbeatsInARow) {
    const message = `The release did not stay connected for ${limits.heartbeatsInARow} heartbeats${over} within ${seconds} s.`;
    return { code: 'NOT_CONNECTED', message };
  }
  const faults = unproved(facts).map((check) => {
    const fault = facts.health.faults.find((one) => one.check === check);
    return `${LACKS[check]} (${fault?.message ?? 'it gave no answer'})`;
  });
  return {
    code: 'NOT_HEALTHY',
    message: `The release before could do what this one has not proved within ${seconds} s: ${faults.join('; ')}.`,
  };
}

const LACKS: Readonly<Record<HealthCheck, string>> = {
  live_query: 'answer a live query',
  event_log: 'read an event log',
  command_ledger: 'keep commands',
};
