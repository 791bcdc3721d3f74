import { HOUR_MS } from '../../clock.ts';
import type { UpgradeReport } from '../../hub/ports.ts';
import { isLastingFailure, waitAfterFailure } from '../../protocol/index.ts';
import type { PinnedComponent, AttemptState } from './upgrade.schema.ts';

/** Attempts that decide about what a device is offered. */

/** A device that reports nothing for so long is offered the release again. */
const IN_FLIGHT_MS = 15 * 60_000;
/** Longer than a week, so that the maintenance window of every day comes once. */
export const REQUEST_DAYS = 8;
const REQUEST_MS = REQUEST_DAYS * 24 * 3_600_000;

export interface HeldAttempt {
  component: PinnedComponent;
  targetVersion: string;
  state: AttemptState;
  retryAt: Date | null;
  startedAt: Date;
  updatedAt: Date;
}

type Running = Exclude<AttemptState, 'offered' | 'completed' | 'failed' | 'rolled_back'>;
export type InFlight = HeldAttempt & { state: Running };
export type HeldBack = HeldAttempt & { state: 'failed' | 'rolled_back'; retryAt: Date };

const ENDED: readonly AttemptState[] = ['completed', 'failed', 'rolled_back'];
const hasEnded = ({ state }: Pick<HeldAttempt, 'state'>): boolean => ENDED.includes(state);

/** Until when the device is taken to be busy with the attempt; `undefined` if it is not. */
const busyUntil = (attempt: HeldAttempt): number | undefined =>
  attempt.state === 'offered' || hasEnded(attempt) ? undefined : attempt.updatedAt.getTime() + IN_FLIGHT_MS;

/** Until when the request of a person counts; `undefined` if it is none. */
const askedUntil = ({ state, startedAt }: HeldAttempt): number | undefined =>
  state === 'offered' ? startedAt.getTime() + REQUEST_MS : undefined;

const isBefore = (now: Date, until: number | undefined) => until !== undefined && now.getTime() < until;

export const isInFlight = (attempt: HeldAttempt, now: Date): attempt is InFlight =>
  isBefore(now, busyUntil(attempt));
/**
 * Whether the device runs the release of an attempt whose end it has not reported: its watchdog still tries it. This does
 * not wait until the attempt is recorded as `trial`, and does not lapse: a trial without an end is ended by `UpgradeEnds`.
 */
export const isOnTrial = (attempt: HeldAttempt, current: string | undefined): attempt is InFlight =>
  attempt.state !== 'offered' && !hasEnded(attempt) && attempt.targetVersion === current;
export const isAsked = (attempt: HeldAttempt, now: Date): boolean => isBefore(now, askedUntil(attempt));
export const isHeldBack = (attempt: HeldAttempt, now: Date): attempt is HeldBack =>
  hasEnded(attempt) && attempt.state !== 'completed' && isBefore(now, attempt.retryAt?.getTime());

/** The next moment at which one of them stops to count. */
export function nextLapse(held: readonly HeldAttempt[], now: Date): number {
  const ends = held.flatMap((one) => [busyUntil(one), askedUntil(one), one.retryAt?.getTime()]);
  return Math.min(...ends.filter((end) => end !== undefined && end > now.getTime()).map(Number));
}

/** The changes that a report of a device makes to the history of its upgrades. */

export interface Attempt {
  id: string;
  component: PinnedComponent;
  /** As the device names it; the id of the row if it does not. */
  attemptId: string;
  fromVersion: string | null;
  targetVersion: string;
  state: AttemptState;
  code: string | null;
  error: string | null;
  rolloutId: string | null;
  byHand: boolean;
  failures: number;
  retryAt: Date | null;
  startedAt: Date;
  updatedAt: Date;
  finishedAt: Date | null;
}

/**
 * An attempt only goes up. Reports that arrive twice, late or in another order therefore end in the same state. A release
 * can be rolled back after it was taken to be healthy, and an attempt that was given up here may still succeed.
 */
const RANK: Record<AttemptState, number> = {
  offered: 0,
  downloading: 1,
  verifying: 2,
  installing: 3,
  restarting: 4,
  trial: 5,
  failed: 6,
  completed: 7,
  rolled_back: 8,
};

/**
 * After so many failures of one version in a row, a device that does not say how long it waits is offered it once a day.
 * Most failures pass by themselves; a release that is bad waits after the first.
 */
const FAILURES_IN_A_ROW = 3;
const RETRY_MS = 24 * 3_600_000;
/** More attempts within an hour than a working device makes are not recorded. */
const PER_HOUR = 20;
/** The same end within this time, from a device that does not name its attempts, is the same report again. */
const SAME_WITHIN_MS = 60_000;

export interface Circumstances {
  now: Date;
  newId: () => string;
  /** The version that the device ran when it was last heard. */
  current: string | null;
  rolloutId: string | null;
}

type Report = Omit<UpgradeReport, 'deviceId'>;

/**
 * @param attempts  those of the device, newest first
 * @returns all of them after the report; those that it has changed are other objects than before
 */
export function afterReport(
  attempts: readonly Attempt[],
  report: Report,
  circumstances: Circumstances,
): readonly Attempt[] {
  const known = attemptOf(attempts, report, circumstances.now);
  if (known === undefined) return begun(attempts, report, circumstances);
  const changed = advanced(known, report, attempts, circumstances.now);
  if (changed === known) return attempts;
  const after = attempts.map((one) => (one === known ? changed : one));
  return changed.state === 'completed' ? withoutHolds(after, changed) : after;
}

function attemptOf(
  attempts: readonly Attempt[],
  { component, attemptId, targetVersion, phase }: Report,
  now: Date,
): Attempt | undefined {
  const same = attempts.filter((one) => one.component === component && one.targetVersion === targetVersion);
  const asked = same.find(({ state }) => state === 'offered');
  if (attemptId !== undefined) {
    return attempts.find((one) => one.component === component && one.attemptId === attemptId) ?? asked;
  }
  const [newest] = same;
  if (newest === undefined || !hasEnded(newest)) return newest;
  if (phase === 'rolled_back' && newest.state === 'completed') return newest;
  const isRepeated = newest.state === phase && now.getTime() - newest.updatedAt.getTime() < SAME_WITHIN_MS;
  return isRepeated ? newest : asked;
}

function begun(
  attempts: readonly Attempt[],
  report: Report,
  { now, newId, current, rolloutId }: Circumstances,
): readonly Attempt[] {
  const recent = attempts.filter(({ startedAt }) => now.getTime() - startedAt.getTime() < HOUR_MS);
  if (recent.length >= PER_HOUR) return attempts;
  const { component, targetVersion, fromVersion } = report;
  const id = newId();
  const fresh: Attempt = {
    id,
    component,
    attemptId: report.attemptId ?? id,
    fromVersion: fromVersion ?? current,
    targetVersion,
    state: 'offered',
    code: null,
    error: null,
    rolloutId,
    byHand: false,
    failures: 0,
    retryAt: null,
    startedAt: now,
    updatedAt: now,
    finishedAt: null,
  };
  // A device installs one release at a time: what it began before, it has given up.
  const earlier = attempts.map((one) =>
    one.component === component && one.state !== 'offered' && !hasEnded(one)
      ? advanced(one, { ...SUPERSEDED, component, targetVersion: one.targetVersion }, attempts, now)
      : one,
  );
  const changed = advanced(fresh, report, earlier, now);
  const after = [changed, ...earlier];
  return changed.state === 'completed' ? withoutHolds(after, changed) : after;
}

const SUPERSEDED = {
  phase: 'failed',
  code: 'SUPERSEDED',
  error: 'The device has begun with another attempt.',
} as const;

function advanced(attempt: Attempt, report: Report, all: readonly Attempt[], now: Date): Attempt {
  const { phase } = report;
  if (RANK[phase] <= RANK[attempt.state]) return attempt;
  const isFirst = attempt.state === 'offered';
  const hasFailed = phase === 'failed' || phase === 'rolled_back';
  const failures = hasFailed && report.code !== REQUEST_EXPIRED ? 1 + failuresBefore(attempt, all) : 0;
  return {
    ...attempt,
    ...(isFirst ? { startedAt: now, attemptId: report.attemptId ?? attempt.attemptId } : {}),
    fromVersion: report.fromVersion ?? attempt.fromVersion,
    state: phase,
    code: hasFailed ? (report.code ?? null) : null,
    error: hasFailed ? (report.error ?? null) : null,
    failures,
    retryAt: retryAt(report, failures, now),
    updatedAt: now,
    finishedAt: hasFailed || phase === 'completed' ? now : null,
  };
}

function retryAt(report: Report, failures: number, now: Date): Date | null {
  const waitMs = failures === 0 ? 0 : waitOf(report, failures);
  return waitMs === 0 ? null : new Date(now.getTime() + waitMs);
}

/** The device decides, because it tries again whenever its own wait is over. */
function waitOf({ phase, code, retryInSeconds }: Report, failures: number): number {
  if (retryInSeconds !== undefined) return retryInSeconds * 1000;
  if (phase === 'rolled_back' || (code !== undefined && isLastingFailure(code))) {
    return waitAfterFailure({ count: failures, isTemporary: false });
  }
  return failures < FAILURES_IN_A_ROW ? 0 : RETRY_MS;
}

/** The code of a request that no device began with, which is no failure of the release. */
export const REQUEST_EXPIRED = 'REQUEST_EXPIRED';

function failuresBefore(attempt: Attempt, all: readonly Attempt[]): number {
  const before = all.find(
    (one) =>
      one.id !== attempt.id &&
      one.component === attempt.component &&
      one.targetVersion === attempt.targetVersion &&
      one.startedAt <= attempt.startedAt &&
      hasEnded(one),
  );
  return before?.failures ?? 0;
}

/** A component that was upgraded successfully waits for nothing any more. */
const withoutHolds = (attempts: readonly Attempt[], { component }: Attempt): readonly Attempt[] =>
  attempts.map((one) =>
    one.component === component && one.retryAt !== null ? { ...one, retryAt: null } : one,
  );
