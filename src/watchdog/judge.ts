import { z } from 'zod';
import { HealthCheck, type HealthReport, type FromChild } from '../agent/os/supervision.ts';
import { clock, type Timer } from '../clock.ts';

/** Whether a release on trial has proved itself. Pure; all times are of the monotonic clock. */

export interface TrialLimits {
  firstHeartbeatMs: number;
  heartbeatsMs: number;
  heartbeatsInARow: number;
  unservedMs: number;
}

export interface TrialFacts {
  /**
   * Start of the current waiting period: the start of the program, or the last time when the server was known to be
   * out of service.
   */
  periodFrom: number;
  /** How long the server was out of service, in total. */
  unservedMs: number;
  /** Whether the server was in service at the last check; true at the start. */
  wasServed: boolean;
  /** The version that the program has reported. */
  version: string | undefined;
  /** The checks that the former release has passed, and that this one must pass as well. */
  expected: readonly Ability[];
  /** Whether the socket is open. */
  isConnected: boolean;
  /** Heartbeats acknowledged over one connection; over the socket only, if the former release had one. */
  inARow: number;
  /** The checks that the release has passed so far, and the faults of the others. */
  health: HealthReport;
}

/** The checks of a release before an upgrade. `socket`: heartbeats were acknowledged over its socket. */
export const Ability = z.enum(['socket', ...HealthCheck.options]);
export type Ability = z.infer<typeof Ability>;

export type Judgement =
  | { is: 'open' }
  | { is: 'healthy' }
  /** Time is up. Whether the release is at fault depends on whether the server serves this machine at all. */
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

/** The checks that the former release has passed and this one has not yet, besides the socket. */
export const unproved = ({ expected, health }: TrialFacts): HealthCheck[] =>
  HealthCheck.options.filter((check) => expected.includes(check) && !health.works.includes(check));

/** Whether a heartbeat acknowledged now proves that the release is connected like the former one. */
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

/** The decision after the check whether the server serves this machine. */
export function afterQuestion(
  facts: TrialFacts,
  isServed: boolean,
  now: number,
  limits: TrialLimits,
): { facts: TrialFacts; judgement: Judgement } {
  if (isServed && facts.wasServed) {
    return { facts, judgement: { is: 'failed', ...lackOf(facts, limits) } };
  }
  // After an outage the server gets a whole period, because the release may wait before it connects again.
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
    return `${LACKS[check]} (${fault?.message ?? 'it did not answer'})`;
  });
  return {
    code: 'NOT_HEALTHY',
    message: `The former release passed checks that this one has not passed within ${seconds} s: ${faults.join('; ')}.`,
  };
}

const LACKS: Readonly<Record<HealthCheck, string>> = {
  live_query: 'answer a live query',
  event_log: 'read an event log',
  command_ledger: 'keep commands',
};

/** Longer than several hanging checks of an agent take, one after another. */
const ANSWER_MS = 35_000;

/** Runs the checks of a running release, as a baseline for the next one. */
export class AbilitiesBefore {
  readonly #ask: () => void;
  #checks: readonly string[] = [];
  #isConnected = false;
  #hadSocket = false;
  #answered: ((report: HealthReport) => void) | undefined;

  /** @param ask  requests the checks of the release */
  constructor(ask: () => void) {
    this.#ask = ask;
  }

  hello(checks: Extract<FromChild, { type: 'hello' }>['checks']): void {
    this.#checks = checks ?? [];
  }

  connection(isConnected: boolean): void {
    this.#isConnected = isConnected;
  }

  /** The socket may be closed at the moment of the upgrade: it counts if it has ever worked. */
  heartbeat(): void {
    if (this.#isConnected) this.#hadSocket = true;
  }

  health(report: HealthReport): void {
    this.#answered?.(report);
  }

  /** A release that does not answer has passed no check, so none is expected of the next one. */
  async read(): Promise<Ability[]> {
    const socket: Ability[] = this.#hadSocket ? ['socket'] : [];
    if (this.#checks.length === 0) return socket;
    let timer: Timer | undefined;
    const report = await new Promise<HealthReport | undefined>((resolve) => {
      this.#answered = resolve;
      timer = clock.setTimeout(() => resolve(undefined), ANSWER_MS);
      this.#ask();
    });
    clock.clear(timer);
    this.#answered = undefined;
    return [...socket, ...(report?.works ?? [])];
  }
}
