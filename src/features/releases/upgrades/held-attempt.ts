import type { PinnedComponent } from '../targets/target.schema.ts';
import type { AttemptState } from './upgrade.schema.ts';

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
export const hasEnded = ({ state }: Pick<HeldAttempt, 'state'>): boolean => ENDED.includes(state);

/** Until when the device is taken to be busy with the attempt; `undefined` where it is not. */
const busyUntil = (attempt: HeldAttempt): number | undefined =>
  attempt.state === 'offered' || hasEnded(attempt) ? undefined : attempt.updatedAt.getTime() + IN_FLIGHT_MS;

/** Until when the request of a person counts; `undefined` where it is none. */
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
