import {
  type LiveRollout,
  rolloutFor,
  nextChange,
  resolveTarget,
  type KnownReleases,
  type Resolution,
  type UpgradableDevice,
} from './resolve-target.ts';
import type { UpgradePause } from '../maintenance-windows/index.ts';
import type { EffectiveSettings, PinnedComponent, UpgradeReason, UpgradeState } from './upgrade.schema.ts';
import {
  type HeldAttempt,
  type HeldBack,
  type InFlight,
  isAsked,
  isHeldBack,
  isInFlight,
  isOnTrial,
  nextLapse,
} from './attempts.ts';

/**
 * The releases that the components of a device should install now: the answer of the resolver, and what the attempts of
 * the device change about it. The same function serves people and heartbeats (docs/decisions/agent-update-targets.md).
 */

export interface Subject {
  deviceId: string;
  agentVersion: string;
  /** Undefined if it has reported none. */
  watchdogVersion: string | undefined;
  device: UpgradableDevice;
  /** The maintenance windows that keep back its upgrades: in progress, or about to begin. */
  pauses: readonly Pause[];
}

export type Pause = Pick<UpgradePause, 'name' | 'startsAt' | 'endsAt'>;

export interface Rules {
  settings: EffectiveSettings;
  releases: KnownReleases;
  rollouts: readonly LiveRollout[];
}

export interface Assessment extends Omit<Resolution, 'state' | 'reason'> {
  component: PinnedComponent;
  current: string;
  state: UpgradeState;
  reason: UpgradeReason | null;
  /** A person has asked for the upgrade to this target. */
  isAsked: boolean;
}

/** At most one of them is `offered`: the agent comes first, and nothing is offered while an upgrade is in flight. */
export function assessUpgrades(
  subject: Subject,
  rules: Rules,
  held: readonly HeldAttempt[],
  now: Date,
): Assessment[] {
  const running = runningAttempt(subject, held, now);
  const agent = resolved('agent', subject.agentVersion, subject, rules, held, now);
  const isAgentDone = agent.state === 'up_to_date';
  const assessments = [withAttempts(agent, running, true, held, now)];
  if (subject.watchdogVersion !== undefined) {
    const watchdog = resolved('watchdog', subject.watchdogVersion, subject, rules, held, now);
    assessments.push(withAttempts(watchdog, running, isAgentDone, held, now));
  }
  return assessments;
}

/** A trial counts from the moment in which the device reports the version, whatever was recorded of it. */
function runningAttempt(
  { agentVersion, watchdogVersion }: Subject,
  held: readonly HeldAttempt[],
  now: Date,
): InFlight | undefined {
  const current = { agent: agentVersion, watchdog: watchdogVersion };
  const onTrial = held.find((one): one is InFlight => isOnTrial(one, current[one.component]));
  if (onTrial !== undefined) return { ...onTrial, state: 'trial' };
  return held.find((one): one is InFlight => isInFlight(one, now));
}

/** Until when the assessment stays the same if nothing changes but the time; in milliseconds. */
export function stableUntil(
  { settings }: Rules,
  pauses: readonly Pause[],
  held: readonly HeldAttempt[],
  now: Date,
): number {
  const window = settings.maintenanceWindow.value;
  const change = window === null ? Number.POSITIVE_INFINITY : nextChange(window, now).getTime();
  const bounds = pauses
    .flatMap(({ startsAt, endsAt }) => [startsAt.getTime(), endsAt.getTime()])
    .filter((at) => at > now.getTime());
  return Math.min(change, ...bounds, ...(held.length === 0 ? [] : [nextLapse(held, now)]));
}

/** The pause in effect that ends last. */
function pauseAt(pauses: readonly Pause[], now: Date): { name: string; until: Date } | undefined {
  const [last] = pauses
    .filter(({ startsAt, endsAt }) => startsAt <= now && now < endsAt)
    .sort((one, other) => other.endsAt.getTime() - one.endsAt.getTime());
  return last === undefined ? undefined : { name: last.name, until: last.endsAt };
}

type Resolved = Resolution & { component: PinnedComponent; current: string; isAsked: boolean };

/** A request counts for the version that it was made for. */
function resolved(
  component: PinnedComponent,
  current: string,
  { device, deviceId, pauses }: Subject,
  { settings, releases, rollouts }: Rules,
  held: readonly HeldAttempt[],
  now: Date,
): Resolved {
  const rollout = rolloutFor(rollouts, component, deviceId);
  const maintenance = pauseAt(pauses, now);
  const question = { component, current, device, settings, releases, rollout, maintenance, now };
  const byItself = resolveTarget({ ...question, byHand: false });
  const byHand = held.some(
    (one) => one.component === component && one.targetVersion === byItself.target && isAsked(one, now),
  );
  const resolution = byHand ? resolveTarget({ ...question, byHand }) : byItself;
  return { component, current, isAsked: byHand, ...resolution };
}

function withAttempts(
  resolution: Resolved,
  running: InFlight | undefined,
  isNext: boolean,
  held: readonly HeldAttempt[],
  now: Date,
): Assessment {
  const { component, target, nextAt: _nextAt, ...rest } = resolution;
  if (running?.component === component) {
    return {
      ...rest,
      component,
      target: running.targetVersion,
      state: running.state,
      reason: null,
      message:
        running.state === 'trial'
          ? `The ${component} ${running.targetVersion} is on trial: the device has not reported yet whether it is healthy.`
          : `The ${component} is being upgraded to ${running.targetVersion}.`,
    };
  }
  if (resolution.state !== 'offered') return resolution;
  if (running !== undefined || !isNext) {
    return {
      ...resolution,
      state: 'deferred',
      reason: 'one_at_a_time',
      message: `Agent and watchdog are never upgraded at the same time; the ${otherThan(component)} comes first.`,
    };
  }
  const failed = held
    .filter((one) => one.component === component && one.targetVersion === target)
    .find((one): one is HeldBack => isHeldBack(one, now));
  if (failed === undefined || resolution.isAsked) return resolution;
  return {
    ...resolution,
    state: failed.state,
    reason: 'retry_later',
    nextAt: failed.retryAt,
    message: `The upgrade of the ${component} to ${target} ${failed.state === 'failed' ? 'has failed' : 'was rolled back'}; it is tried again at ${failed.retryAt.toISOString()}.`,
  };
}

const otherThan = (component: PinnedComponent): PinnedComponent =>
  component === 'agent' ? 'watchdog' : 'agent';
