import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../clock.ts';
import type { AlertSeverity } from '../alerts/index.ts';
import type { EscalatesUntil, GroupBy, WeeklyHours } from './policy.schema.ts';
import { isWithinHours } from './weekly-hours.ts';

/** When those whom a policy names are told, and when not. Pure: rounds and the simulation use the same. */

export interface Escalation {
  steps: readonly { afterMinutes: number }[];
  repeatEveryMinutes: number | null;
  groupBy: GroupBy;
  groupSeconds: number;
  until: EscalatesUntil;
}

/** How far a conversation is. */
export interface Progress {
  /** From when the minutes of the steps count. */
  beganAt: Date;
  stepsTaken: number;
  repeats: number;
  lastToldAt: Date | null;
}

/** Everybody is told again at most so often. */
export const REPEATS_MAX = 200;
/** Alerts that join a conversation are told together, never more often than this. */
const JOINED_EVERY_MS = MINUTE_MS;
/** An open conversation is looked at this often even if nothing is due, because its alerts may be gone. */
const LOOK_AGAIN_MS = DAY_MS;

/** How long the first message waits for further alerts. */
export const firstWaitMs = ({
  groupBy,
  groupSeconds,
}: Pick<Escalation, 'groupBy' | 'groupSeconds'>): number =>
  groupBy === 'none' ? 0 : groupSeconds * SECOND_MS;

/** Those of the steps that are due: the numbers of the first and the one behind the last. */
export function dueSteps(
  { steps }: Pick<Escalation, 'steps'>,
  { beganAt, stepsTaken }: Progress,
  now: Date,
): { from: number; to: number } {
  let to = stepsTaken;
  while (to < steps.length && stepAt(steps, beganAt, to) <= now.getTime()) to += 1;
  return { from: stepsTaken, to };
}

const stepAt = (steps: Escalation['steps'], beganAt: Date, place: number): number =>
  beganAt.getTime() + (steps[place]?.afterMinutes ?? 0) * MINUTE_MS;

/** How many repetitions have become due by now, those that were told included. Missed ones are told as one. */
export function repeatsBy(
  { steps, repeatEveryMinutes }: Pick<Escalation, 'steps' | 'repeatEveryMinutes'>,
  { beganAt, stepsTaken, repeats }: Progress,
  now: Date,
): number {
  if (repeatEveryMinutes === null || steps.length === 0 || stepsTaken < steps.length) return repeats;
  const sinceLast = now.getTime() - stepAt(steps, beganAt, steps.length - 1);
  const elapsed = Math.floor(sinceLast / (repeatEveryMinutes * MINUTE_MS));
  return Math.min(Math.max(repeats, elapsed), REPEATS_MAX);
}

/** When the next step or repetition is due; `undefined` if none comes any more. */
export function nextTellingAt(
  { steps, repeatEveryMinutes }: Pick<Escalation, 'steps' | 'repeatEveryMinutes'>,
  { beganAt, stepsTaken, repeats }: Progress,
): Date | undefined {
  if (stepsTaken < steps.length) return new Date(stepAt(steps, beganAt, stepsTaken));
  if (repeatEveryMinutes === null || steps.length === 0 || repeats >= REPEATS_MAX) return undefined;
  const every = repeatEveryMinutes * MINUTE_MS;
  return new Date(stepAt(steps, beganAt, steps.length - 1) + (repeats + 1) * every);
}

/** When those who were told before are told about alerts that have joined since. */
export function joinedTellingAt(
  { groupSeconds }: Pick<Escalation, 'groupSeconds'>,
  { lastToldAt }: Pick<Progress, 'lastToldAt'>,
  now: Date,
): Date {
  if (lastToldAt === null) return now;
  const every = Math.max(groupSeconds * SECOND_MS, JOINED_EVERY_MS);
  return new Date(Math.max(now.getTime(), lastToldAt.getTime() + every));
}

/** The alerts of a conversation, counted. */
export interface Standing {
  active: number;
  acknowledged: number;
  /** Active ones that nobody has been told about. */
  untold: number;
}

export type GroupState = 'open' | 'acknowledged' | 'closed';

export function stateOf({ active, acknowledged }: Standing): GroupState {
  if (active > 0) return 'open';
  return acknowledged > 0 ? 'acknowledged' : 'closed';
}

/** Whether steps and repetitions go on in a state. */
export const escalates = (state: GroupState, until: EscalatesUntil): boolean =>
  state === 'open' || (state === 'acknowledged' && until === 'resolved');

/**
 * When a conversation is to be looked at next; null once it is closed.
 * @param policy  absent if it was deleted or disabled, so that nobody is told anything but the end
 */
export function nextLookAt(
  policy: Escalation | undefined,
  standing: Standing,
  progress: Progress,
  now: Date,
): Date | null {
  const state = stateOf(standing);
  if (state === 'closed') return null;
  const looks = [now.getTime() + LOOK_AGAIN_MS];
  if (policy !== undefined) {
    const next = escalates(state, policy.until) ? nextTellingAt(policy, progress) : undefined;
    if (next !== undefined) looks.push(next.getTime());
    if (progress.stepsTaken > 0 && standing.untold > 0) {
      looks.push(joinedTellingAt(policy, progress, now).getTime());
    }
  }
  return new Date(Math.min(...looks));
}

export interface Telling {
  at: Date;
  reason: 'raised' | 'escalated' | 'repeated';
  /** The number of the step, from 0. */
  step: number;
}

/** All tellings about an alert that nobody acknowledges or resolves, in their order, until a time. */
export function* timeline(policy: Escalation, raisedAt: Date, until: Date): Generator<Telling> {
  const beganAt = new Date(raisedAt.getTime() + firstWaitMs(policy));
  let progress: Progress = { beganAt, stepsTaken: 0, repeats: 0, lastToldAt: null };
  for (;;) {
    const at = nextTellingAt(policy, progress);
    if (at === undefined || at > until) return;
    if (progress.stepsTaken < policy.steps.length) {
      yield { at, reason: progress.stepsTaken === 0 ? 'raised' : 'escalated', step: progress.stepsTaken };
      progress = { ...progress, stepsTaken: progress.stepsTaken + 1 };
    } else {
      yield { at, reason: 'repeated', step: policy.steps.length - 1 };
      progress = { ...progress, repeats: progress.repeats + 1 };
    }
  }
}

/** What a person wants to be told. */
export interface PersonalRules {
  quietHours: WeeklyHours | null;
  criticalBreaksQuietHours: boolean;
  severities: readonly AlertSeverity[] | null;
}

/** Why a person is not told; `undefined` if they are. */
export function suppression(
  { quietHours, criticalBreaksQuietHours, severities }: PersonalRules,
  severity: AlertSeverity,
  at: Date,
): string | undefined {
  if (severities !== null && !severities.includes(severity)) {
    return 'The person does not want alerts of this severity.';
  }
  if (quietHours === null || !isWithinHours(quietHours, at)) return undefined;
  if (severity === 'critical' && criticalBreaksQuietHours) return undefined;
  return 'The person has quiet hours.';
}
