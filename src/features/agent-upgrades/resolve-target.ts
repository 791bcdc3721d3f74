import { MINUTE_MS, DAY_MS, WEEK_MS } from '../../clock.ts';
import { compareVersions, parseVersion } from '../../platform/semver.ts';
import { UPGRADE_CAPABILITY } from '../../protocol/index.ts';
import type { Reason, EffectiveSettings, Level, PinnedComponent, TargetState } from './upgrade.schema.ts';
import type { Device } from '../devices/index.ts';
import { type MaintenanceWindow, Weekday, AgentUpdateSettings } from '../partners/index.ts';
import { createHash } from 'node:crypto';

/** Maintenance windows, in UTC. One opens on each of its days, and closes less than 24 hours later. */

const A_MONDAY = Date.UTC(1970, 0, 5);

/** The moment at which a window opens is within it, the moment at which it closes is not. */
export function isOpen(window: MaintenanceWindow, now: Date): boolean {
  const length = lengthOf(window);
  return timesSinceOpening(window, now).some((time) => time < length);
}

/** The first moment after `now` at which the window opens. */
export function nextOpening(window: MaintenanceWindow, now: Date): Date {
  return new Date(now.getTime() + WEEK_MS - Math.max(...timesSinceOpening(window, now)));
}

/** A moment after `now` until which it surely stays open, or closed. */
export function nextChange(window: MaintenanceWindow, now: Date): Date {
  const length = lengthOf(window);
  const closings = timesSinceOpening(window, now)
    .filter((time) => time < length)
    .map((time) => now.getTime() + length - time);
  return new Date(Math.min(nextOpening(window, now).getTime(), ...closings));
}

/** For each of its days, how long ago the window last opened on that day; 0 if it opens now. */
function timesSinceOpening({ days, start }: MaintenanceWindow, now: Date): number[] {
  return days.map((day) => {
    const opening = A_MONDAY + Weekday.options.indexOf(day) * DAY_MS + timeOfDay(start);
    return modulo(now.getTime() - opening, WEEK_MS);
  });
}

const lengthOf = ({ start, end }: MaintenanceWindow) => modulo(timeOfDay(end) - timeOfDay(start), DAY_MS);

/** Milliseconds from midnight until a time such as 22:30. */
function timeOfDay(clock: string): number {
  const [hours, minutes] = clock.split(':').map(Number);
  if (hours === undefined || minutes === undefined) throw new Error(`${clock} is not a time of day`);
  return (hours * 60 + minutes) * MINUTE_MS;
}

/** Never negative, unlike the operator's remainder. */
const modulo = (value: number, by: number) => ((value % by) + by) % by;

/** The answer of the resolver as a sentence for people. */
function messageOf(question: Question, target: string | null, outcome: Outcome): string {
  const { component } = question;
  if (outcome.reason !== null) return SENTENCES[outcome.reason](question, target, outcome);
  return outcome.state === 'up_to_date'
    ? `The ${component} runs its target version ${target}.`
    : `Nothing stands in the way of the upgrade of the ${component} to ${target}.`;
}

type Sentence = (question: Question, target: string | null, outcome: Outcome) => string;

const SENTENCES: Record<Reason, Sentence> = {
  no_release: (question) =>
    `No release of the ${question.component} is promoted for ${platformOf(question)}.`,
  pinned: ({ component, settings }, target) =>
    `The ${settings.pins[component].level} pins the ${component} to ${target}, so newer releases are not installed.`,
  no_build_for_platform: (question, target) =>
    `There is no build of ${question.component} ${target} for ${platformOf(question)}.`,
  newer_than_target: ({ component, current }, target) =>
    parseVersion(current) === undefined
      ? `The ${component} reports the version ${current}, which cannot be compared with ${target}; only a pin to a version replaces it.`
      : `The ${component} runs ${current}, which is newer than ${target}; only a pin to a version installs an older one.`,
  signature_untrusted: ({ component }, target) =>
    `The signature of ${component} ${target} does not hold, so it is not installed.`,
  capability_missing: () =>
    `The agent cannot install releases by itself: it does not report the capability ${UPGRADE_CAPABILITY}.`,
  auto_update_off: () => 'Automatic updates are switched off for this device.',
  policy_manual: ({ settings }) =>
    `The ${settings.policy.level} has the update policy manual: upgrades start on request.`,
  rollout_halted: (_question, target) => `The rollout of ${target} was halted.`,
  wave_not_reached: (_question, target) =>
    `The update policy is staged, and no wave of a rollout of ${target} has reached this device.`,
  outside_window: (_question, _target, { nextAt }) =>
    `Upgrades are installed in the maintenance window only, which opens next at ${nextAt?.toISOString()}.`,
  in_maintenance: ({ maintenance }, _target, { nextAt }) =>
    `No upgrades are installed during the maintenance window ${maintenance?.name}, and none before ${nextAt?.toISOString()}.`,
  agent_offline: (_question, target) => `The device is not connected; ${target} is offered when it connects.`,
};

const platformOf = ({ device }: Question) => `${device.osType}/${device.architecture}`;

/** Whether a component of a device is upgraded now, to which version, and why not (docs/decisions/agent-update-targets.md). */

const blocked = (reason: Reason): Outcome => ({ state: 'blocked', reason });
const deferred = (reason: Reason): Outcome => ({ state: 'deferred', reason });

export function resolveTarget(question: Question): Resolution {
  const { component, settings } = question;
  const latest = latestFor(question);
  const pin = settings.pins[component];
  const target = (pin.value === 'latest' ? latest : pin.value) ?? null;
  const outcome = outcomeOf(question, target, latest);
  return {
    target,
    ...outcome,
    message: messageOf(question, target, outcome),
    levels: { pin: pin.level, policy: settings.policy.level, window: settings.maintenanceWindow.level },
  };
}

/**
 * The version that the pin `latest` names: the promoted release. Under the policy `staged` it is the rollout's if that
 * is higher and has a build for the platform.
 */
function latestFor({ component, device, releases, settings, rollout }: Question): string | undefined {
  const promoted = releases.promoted(component, device);
  if (settings.policy.value !== 'staged' || rollout === undefined) return promoted;
  if (releases.build(component, rollout.version, device) === undefined) return promoted;
  const isHigher = promoted === undefined || (orderOf(rollout.version, promoted) ?? 0) > 0;
  return isHigher ? rollout.version : promoted;
}

/** The first answer counts: what stands in the way for longest comes first. */
function outcomeOf(question: Question, target: string | null, latest: string | undefined): Outcome {
  if (target === null) return blocked('no_release');
  return (
    atTarget(question, target, latest) ??
    obstacleInRelease(question, target) ??
    obstacleOnDevice(question) ??
    obstacleInPolicy(question, target) ??
    obstacleInTime(question) ?? { state: 'offered', reason: null }
  );
}

/** Nothing to install: the device runs its target, or something newer that no pin asks it to leave. */
function atTarget(
  { component, current, settings }: Question,
  target: string,
  latest: string | undefined,
): Outcome | undefined {
  const isPinned = settings.pins[component].value !== 'latest';
  const order = orderOf(current, target);
  if (order === 0) {
    const hasNewer = latest !== undefined && (orderOf(latest, target) ?? 0) > 0;
    return { state: 'up_to_date', reason: isPinned && hasNewer ? 'pinned' : null };
  }
  // A version that cannot be compared, such as a build of a developer, is left alone like a newer one.
  return isPinned || (order !== undefined && order < 0) ? undefined : blocked('newer_than_target');
}

/** By semver; `undefined` if one of the two is no version and they differ. */
function orderOf(a: string, b: string): number | undefined {
  if (a === b) return 0;
  const [left, right] = [parseVersion(a), parseVersion(b)];
  return left === undefined || right === undefined ? undefined : compareVersions(left, right);
}

function obstacleInRelease({ component, device, releases }: Question, target: string): Outcome | undefined {
  const build = releases.build(component, target, device);
  if (build === undefined) return blocked('no_build_for_platform');
  return build === 'untrusted' ? blocked('signature_untrusted') : undefined;
}

function obstacleOnDevice({ device }: Question): Outcome | undefined {
  if (!device.capabilities.includes(UPGRADE_CAPABILITY)) return blocked('capability_missing');
  return device.autoUpdate ? undefined : blocked('auto_update_off');
}

/** A person who asks for the upgrade stands in for the policy, but not for a rollout that was halted. */
function obstacleInPolicy({ settings, rollout, byHand }: Question, target: string): Outcome | undefined {
  const policy = settings.policy.value;
  const wave = rollout?.version === target ? rollout.wave : 'not_reached';
  if (policy === 'manual' && !byHand) return blocked('policy_manual');
  if (policy !== 'staged') return undefined;
  if (wave === 'halted') return blocked('rollout_halted');
  return wave === 'not_reached' && !byHand ? deferred('wave_not_reached') : undefined;
}

function obstacleInTime({ settings, device, maintenance, now }: Question): Outcome | undefined {
  const window = settings.maintenanceWindow.value;
  if (window !== null && !isOpen(window, now)) {
    return { ...deferred('outside_window'), nextAt: nextOpening(window, now) };
  }
  if (maintenance !== undefined) {
    const { until } = maintenance;
    const nextAt = window === null || isOpen(window, until) ? until : nextOpening(window, until);
    return { ...deferred('in_maintenance'), nextAt };
  }
  return device.connected ? undefined : deferred('agent_offline');
}

/** The input of the resolver, and its result. */

export interface Platform {
  osType: Device['osType'];
  architecture: Device['architecture'];
}

export interface UpgradableDevice extends Platform {
  autoUpdate: boolean;
  capabilities: readonly string[];
  connected: boolean;
}

/** The releases that the server knows. */
export interface KnownReleases {
  /** The version that is promoted. */
  promoted(component: PinnedComponent, platform: Platform): string | undefined;
  /** The release of a version; `untrusted` if its signature does not hold. */
  build(component: PinnedComponent, version: string, platform: Platform): 'trusted' | 'untrusted' | undefined;
}

export interface Question {
  component: PinnedComponent;
  /** The version that the device reports. */
  current: string;
  device: UpgradableDevice;
  settings: EffectiveSettings;
  releases: KnownReleases;
  /** The rollout of the component, and what it says about this device. It counts under the policy `staged`. */
  rollout: { version: string; wave: Wave } | undefined;
  /** The maintenance window in progress that keeps back the upgrades of this device. */
  maintenance: { name: string; until: Date } | undefined;
  /** A person has asked for the upgrade of this device. */
  byHand: boolean;
  now: Date;
}

export interface Resolution {
  target: string | null;
  state: TargetState;
  reason: Reason | null;
  /** A sentence for people. */
  message: string;
  /**
   * When the window opens next, of `outside_window`; of `in_maintenance`, when maintenance is over and the window is open.
   */
  nextAt?: Date;
  levels: { pin: Level; policy: Level; window: Level };
}

type Outcome = Pick<Resolution, 'state' | 'reason' | 'nextAt'>;

/** Which wave of a rollout a device belongs to, by a hash that is the same on every server and in the database. */

/** The facts about the newest rollout of a component, unless it was aborted, that decide about devices. */
export interface LiveRollout {
  id: string;
  component: string;
  version: string;
  /** The share of the fleet in the waves that are open; 0 while the rollout is paused. */
  reachedPercent: number;
  isHalted: boolean;
  /** Devices that belong to the first wave whatever their place, so that it holds some devices of each platform. */
  firstDevices: ReadonlySet<string>;
}

/** The decision of a rollout about a device. */
export type Wave = 'reached' | 'not_reached' | 'halted';

/** Percentages have two decimals, so that each is a whole number of places. */
export const PLACES = 10_000;
const PLACES_PER_PERCENT = PLACES / 100;

/** A device's place in a rollout, from 0 to 9,999. Other devices come first in the next one. SQL: `rollout_place`. */
export function placeOf(rolloutId: string, deviceId: string): number {
  const ids = Buffer.from(`${rolloutId}${deviceId}`.replaceAll('-', ''), 'hex');
  return createHash('sha256').update(ids).digest().readUInt32BE() % PLACES;
}

/** How many places a share of the fleet has. */
export const placesOf = (percent: number): number => Math.round(percent * PLACES_PER_PERCENT);

export function waveOf(rollout: LiveRollout | undefined, deviceId: string): Wave {
  if (rollout === undefined) return 'not_reached';
  if (rollout.isHalted) return 'halted';
  if (rollout.reachedPercent === 0) return 'not_reached';
  const isReached =
    placeOf(rollout.id, deviceId) < placesOf(rollout.reachedPercent) || rollout.firstDevices.has(deviceId);
  return isReached ? 'reached' : 'not_reached';
}

/** The decision of the rollouts about a component of a device, in the form that the resolver takes. */
export function rolloutFor(
  rollouts: readonly LiveRollout[],
  component: string,
  deviceId: string,
): { version: string; wave: Wave } | undefined {
  const rollout = rollouts.find((one) => one.component === component);
  return rollout === undefined ? undefined : { version: rollout.version, wave: waveOf(rollout, deviceId) };
}

/** Which settings count for the devices of an organization, and which level each of them came from (SPEC 9.8, 9.9). */

interface OwnSettings {
  organization: AgentUpdateSettings;
  partner: AgentUpdateSettings;
}

export function effectiveSettings({ organization, partner }: OwnSettings): EffectiveSettings {
  // The organization's pin comes first, the partner's policy and window do.
  const pin = (component: PinnedComponent) =>
    firstSet(
      [
        { value: organization.pins?.[component], level: 'organization' },
        { value: partner.pins?.[component], level: 'partner' },
      ],
      'latest',
    );
  const locked = <K extends 'policy' | 'maintenanceWindow'>(field: K) => [
    { value: partner[field], level: 'partner' as const },
    { value: organization[field], level: 'organization' as const },
  ];
  return {
    pins: { agent: pin('agent'), watchdog: pin('watchdog') },
    policy: firstSet(locked('policy'), 'auto'),
    maintenanceWindow: firstSet(locked('maintenanceWindow'), null),
  };
}

function firstSet<T, D>(
  candidates: readonly { value: T | null | undefined; level: Level }[],
  byDefault: D,
): { value: T | D; level: Level } {
  for (const { value, level } of candidates) {
    if (value !== undefined && value !== null) return { value, level };
  }
  return { value: byDefault, level: 'default' };
}

/**
 * Reads `agentUpdates` as it is stored. An organization's settings were free-form JSON before this schema; a value from
 * then that the schema refuses counts as the policy `manual`, so that nothing is upgraded on a guess.
 */
export function parseStored(stored: unknown): AgentUpdateSettings {
  if (stored === undefined || stored === null) return {};
  const parsed = AgentUpdateSettings.safeParse(stored);
  return parsed.success ? parsed.data : { policy: 'manual' };
}
