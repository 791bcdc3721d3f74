import type { Tx } from '../../platform/db/transaction.ts';
import { UPGRADE_CAPABILITY } from '../../protocol/index.ts';
import { knownReleasesOfAll } from './known-releases.ts';
import {
  type Silence,
  type WaveProgress,
  type HaltReason,
  type Outcomes,
  nextStep,
  type RolloutPosition,
  type Step,
} from './next-step.ts';
import { resolveTarget, type KnownReleases, type Wave } from './resolve-target.ts';
import type { AgentRollout } from './upgrade.model.ts';
import {
  type CountedRollout,
  countDevices,
  type DeviceGroup,
  type SettingsClass,
  stagedOrganizations,
  type NamedDevice,
  silentDevices,
  failedDevices,
  readOutcomes,
} from './rollout.queries.ts';
import type { Reason, AttemptState } from './upgrade.schema.ts';

/** Where the devices of a rollout stand. What a device waits for is the resolver's answer, as its own page shows it. */

type UnderWay = Exclude<AttemptState, 'completed' | 'rolled_back'>;
export type Standing = UnderWay | 'healthy' | 'rolledBack' | 'silent' | 'upToDate';

/** The devices of one wave: each counts in one of these. */
export interface WaveCount {
  standings: Partial<Record<Standing, number>>;
  /** Devices whose upgrade has not begun, by the reason; `due`: they are offered it with their next heartbeat. */
  waiting: Partial<Record<Reason | 'due', number>>;
  progress: WaveProgress;
}

export interface RolloutCounts {
  /** By index. A last one holds the devices that no wave reaches. */
  waves: WaveCount[];
  silence: Silence;
  finishedInAll: number;
}

export type ExaminedRollout = CountedRollout & Pick<AgentRollout, 'version' | 'state' | 'wave'>;

export async function countRollout(
  tx: Tx,
  rollout: ExaminedRollout,
  now: Date,
): Promise<RolloutCounts & { classes: SettingsClass[] }> {
  const classes = await stagedOrganizations(tx, rollout.component);
  const releases = await knownReleasesOfAll(tx, rollout.version);
  const groups = await countDevices(tx, rollout, { classes, now });
  return { classes, ...tally(groups, rollout, { classes, releases, now }) };
}

/** The facts beside the rollout that decide about the devices. */
export interface Judging {
  classes: readonly SettingsClass[];
  releases: KnownReleases;
  now: Date;
}

/** Pure: what the groups add up to. */
export function tally(
  groups: readonly DeviceGroup[],
  rollout: Pick<ExaminedRollout, 'component' | 'version' | 'state' | 'wave' | 'waves'>,
  judging: Judging,
): RolloutCounts {
  const waves = Array.from({ length: rollout.waves.length + 1 }, emptyWave);
  const silence = { upgraded: 0, upgradedSilent: 0, others: 0, othersSilent: 0 };
  let finishedInAll = 0;
  for (const group of groups) {
    countSilence(silence, group);
    const wave = waves[group.wave];
    const place = placeOfGroup(group, rollout, judging);
    if (wave === undefined || place === undefined) continue;
    if (group.hasFinished) finishedInAll += group.devices;
    count(wave, group, place);
  }
  return { waves, silence, finishedInAll };
}

const emptyWave = (): WaveCount => ({
  standings: {},
  waiting: {},
  progress: { members: 0, reachable: 0, finished: 0 },
});

type PlaceOfGroup = { standing: Standing } | { waitsFor: Reason | 'due' };

/** `undefined` for devices whose target is not the version of the rollout. */
function placeOfGroup(
  group: DeviceGroup,
  rollout: Pick<ExaminedRollout, 'component' | 'version' | 'state' | 'wave'>,
  { classes, releases, now }: Judging,
): PlaceOfGroup | undefined {
  if (group.silence === 'upgraded_silent') return { standing: 'silent' };
  if (group.attempt !== null) return { standing: standingOf(group.attempt) };
  const settings = classes[group.settingsClass]?.settings;
  if (settings === undefined) return undefined;
  const { osType, architecture, autoUpdate, connected, isCapable, current } = group;
  const { target, state, reason } = resolveTarget({
    component: rollout.component,
    current,
    device: {
      osType,
      architecture,
      autoUpdate,
      connected,
      capabilities: isCapable ? [UPGRADE_CAPABILITY] : [],
    },
    settings,
    releases,
    rollout: { version: rollout.version, wave: waveOfGroup(group, rollout) },
    // A window ends by itself: its devices count as due.
    maintenance: undefined,
    byHand: false,
    now,
  });
  if (target !== rollout.version) return undefined;
  return state === 'up_to_date' ? { standing: 'upToDate' } : { waitsFor: reason ?? 'due' };
}

function standingOf(attempt: AttemptState): Standing {
  if (attempt === 'completed') return 'healthy';
  return attempt === 'rolled_back' ? 'rolledBack' : attempt;
}

function waveOfGroup(group: DeviceGroup, { state, wave }: Pick<ExaminedRollout, 'state' | 'wave'>): Wave {
  if (state === 'halted') return 'halted';
  return state !== 'paused' && group.wave <= wave ? 'reached' : 'not_reached';
}

/** A device that waits for these would be upgraded by the rollout; what the others wait for, an administrator has to change. */
const ENDS_BY_ITSELF: readonly (Reason | 'due')[] = [
  'due',
  'outside_window',
  'in_maintenance',
  'agent_offline',
  'wave_not_reached',
];

const isMember = (place: PlaceOfGroup): boolean =>
  'standing' in place ? place.standing !== 'upToDate' : ENDS_BY_ITSELF.includes(place.waitsFor);

/** The groups whose devices a rollout would upgrade. */
export const membersAmong = (
  groups: readonly DeviceGroup[],
  rollout: Pick<ExaminedRollout, 'component' | 'version' | 'state' | 'wave'>,
  judging: Judging,
): DeviceGroup[] =>
  groups.filter((group) => {
    const place = placeOfGroup(group, rollout, judging);
    return place !== undefined && isMember(place);
  });

function count(
  wave: WaveCount,
  { devices, isReachable, hasFinished }: DeviceGroup,
  place: PlaceOfGroup,
): void {
  const { standings, waiting, progress } = wave;
  if ('standing' in place) standings[place.standing] = (standings[place.standing] ?? 0) + devices;
  else waiting[place.waitsFor] = (waiting[place.waitsFor] ?? 0) + devices;
  if (!isMember(place)) return;
  progress.members += devices;
  if (isReachable || hasFinished) progress.reachable += devices;
  if (hasFinished) progress.finished += devices;
}

function countSilence(silence: Silence, group: DeviceGroup): void {
  const isUpgraded = group.silence === 'upgraded' || group.silence === 'upgraded_silent';
  const isOther = group.silence === 'others' || group.silence === 'others_silent';
  if (isUpgraded) silence.upgraded += group.devices;
  if (isOther) silence.others += group.devices;
  if (group.silence === 'upgraded_silent') silence.upgradedSilent += group.devices;
  if (group.silence === 'others_silent') silence.othersSilent += group.devices;
}

/** The progress of a rollout, and what follows from it. */
interface Examination {
  outcomes: Outcomes;
  counts: RolloutCounts;
  step: Step;
  classes: SettingsClass[];
}

export async function examine(tx: Tx, rollout: AgentRollout, now: Date): Promise<Examination> {
  const outcomes = await readOutcomes(tx, rollout);
  const { classes, ...counts } = await countRollout(tx, rollout, now);
  const wave = counts.waves[rollout.wave]?.progress ?? { members: 0, reachable: 0, finished: 0 };
  const { silence, finishedInAll } = counts;
  const step = nextStep(positionOf(rollout), { outcomes, silence, wave, finishedInAll }, now);
  return { outcomes, counts, step, classes };
}

/** The devices that are the reason for a halt. */
export function causingDevices(
  tx: Tx,
  rollout: AgentRollout,
  { reason, classes, now }: { reason: HaltReason; classes: readonly SettingsClass[]; now: Date },
): Promise<NamedDevice[]> {
  return reason === 'silent'
    ? silentDevices(tx, rollout, { classes, now })
    : failedDevices(tx, rollout, { inARow: reason === 'failed_in_a_row' });
}

/** The rollout as the pure functions take it. */
export const positionOf = (rollout: AgentRollout): RolloutPosition => ({
  state: rollout.state,
  waves: rollout.waves,
  wave: rollout.wave,
  waveOpenedAt: rollout.waveOpenedAt,
  haltWhen: {
    failedPercent: Number(rollout.failedPercent),
    silentMinutes: rollout.silentMinutes,
    minDevices: rollout.minDevices,
  },
});
