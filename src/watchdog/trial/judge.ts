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
  /** Acknowledged heartbeats over one connection. */
  inARow: number;
}

export type Judgement =
  | { is: 'open' }
  | { is: 'healthy' }
  /** Time is up. Whether that is the fault of the release depends on whether the server serves this machine at all. */
  | { is: 'ask_server' }
  | { is: 'failed'; code: string; message: string };

export const startFacts = (now: number): TrialFacts => ({
  periodFrom: now,
  unservedMs: 0,
  wasServed: true,
  version: undefined,
  inARow: 0,
});

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
  if (version !== undefined && inARow >= limits.heartbeatsInARow) return { is: 'healthy' };
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
    const seconds = Math.round((facts.inARow === 0 ? limits.firstHeartbeatMs : limits.heartbeatsMs) / 1000);
    const message =
      facts.inARow === 0
        ? `The server acknowledged no heartbeat of the release within ${seconds} s.`
        : `The release did not stay connected for ${limits.heartbeatsInARow} heartbeats within ${seconds} s.`;
    return { facts, judgement: { is: 'failed', code: 'NOT_CONNECTED', message } };
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
