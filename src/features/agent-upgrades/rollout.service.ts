import type { Context } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { AgentRelease, type ReleaseKeys, lockReleases } from '../releases/index.ts';
import {
  defaultWaves,
  firstWaveSize,
  type HoldReason,
  soakedAt,
  type Step,
  type HaltReason,
  type Outcomes,
  type Silence,
} from './next-step.ts';
import { AgentRollout } from './upgrade.model.ts';
import type { RolloutState, NewRollout, RolloutQuery } from './rollout.schema.ts';
import { knownReleasesOfAll } from './known-releases.ts';
import { membersAmong, type WaveCount, examine, positionOf } from './rollout-counts.ts';
import {
  currentTime,
  countDevices,
  stagedOrganizations,
  chooseFirstWave,
  percentThrough,
  type NamedDevice,
} from './rollout.queries.ts';
import { z } from 'zod';
import { endLastingAlerts, raiseLastingAlerts, type NewAlert } from '../alerts/index.ts';

/** Rollouts as answers show them. */

function shown(rollout: AgentRollout) {
  const { id, component, version, state, wave, waveOpenedAt, createdBy, createdAt, endedAt } = rollout;
  return {
    id,
    component,
    version,
    state,
    wave,
    waveOpenedAt,
    createdBy,
    createdAt,
    endedAt,
    waves: rollout.waves.map((plan, at) => ({ ...plan, reachedPercent: percentThrough(rollout.waves, at) })),
    haltWhen: positionOf(rollout).haltWhen,
  };
}

/** Adds the states of the devices, counted now. */
async function shownWithDevices(tx: Tx, rollout: AgentRollout) {
  const now = await currentTime(tx);
  const { counts, step } = await examine(tx, rollout, now);
  const answer = shown(rollout);
  const counted = counts.waves.map(countsOf);
  return {
    ...answer,
    waves: answer.waves.map((plan, at) => ({
      ...plan,
      ...(counted[at] ?? countsOf({ standings: {}, waiting: {} })),
      state: at <= rollout.wave ? ('open' as const) : ('waiting' as const),
    })),
    outside: counted[rollout.waves.length]?.devices ?? 0,
    next: {
      step: step.do,
      message: messageOf(rollout.state, step),
      soakedAt: soakedAt(positionOf(rollout)),
    },
    halts: await readHalts(tx, rollout.id),
  };
}

function countsOf({ standings, waiting: { due = 0, ...waiting } }: Pick<WaveCount, 'standings' | 'waiting'>) {
  const counts = {
    due,
    offered: 0,
    downloading: 0,
    verifying: 0,
    installing: 0,
    restarting: 0,
    trial: 0,
    healthy: 0,
    failed: 0,
    rolledBack: 0,
    silent: 0,
    upToDate: 0,
    ...standings,
  };
  const devices = sum(counts) + sum(waiting);
  return { devices, counts: { ...counts, waiting } };
}

const sum = (counts: Partial<Record<string, number>>) =>
  Object.values(counts).reduce<number>((total, count = 0) => total + count, 0);

const STATES: Record<Exclude<AgentRollout['state'], 'running'>, string> = {
  paused: 'The rollout is paused. Resume or abort it.',
  halted: 'The rollout was halted. Resume or abort it.',
  aborted: 'The rollout was aborted.',
  completed: 'The rollout is completed.',
};
const STEPS: Record<Exclude<Step['do'], 'hold'>, string> = {
  halt: 'The rollout is halted in the next round.',
  open_next_wave: 'The next wave opens in the next round.',
  complete: 'The rollout is completed in the next round.',
};
const HOLDS: Record<Exclude<HoldReason, 'not_running'>, string> = {
  soaking: 'The open wave is being observed.',
  nothing_finished: 'No device of the open wave has finished its upgrade.',
  too_few_finished:
    'Fewer than half of the devices of the open wave that are connected have finished their upgrade.',
};

function messageOf(state: AgentRollout['state'], step: Step): string {
  if (state !== 'running') return STATES[state];
  if (step.do !== 'hold') return STEPS[step.do];
  if (step.because === 'not_running') throw new Error('a running rollout does not run');
  return HOLDS[step.because];
}

const HALTS_SHOWN = 20;
const StoredHalts = z.array(
  z.object({
    reason: z.enum(['failed_share', 'failed_in_a_row', 'silent']),
    message: z.string(),
    devices: z.array(z.object({ deviceId: z.string(), orgId: z.string(), name: z.string() })),
    deviceCount: z.number(),
    haltedAt: z.date(),
    endedAt: z.date().nullable(),
  }),
);

async function readHalts(tx: Tx, rolloutId: string) {
  const rows: unknown = await tx('agent_rollout_halts')
    .select('reason', 'message', 'devices', 'device_count as deviceCount', 'halted_at as haltedAt')
    .select('ended_at as endedAt')
    .where({ rollout_id: rolloutId })
    .orderBy('halted_at', 'desc')
    .limit(HALTS_SHOWN);
  return StoredHalts.parse(rows);
}

/** Rollouts as people start, watch and stop them. Callers are system administrators. */

export async function listRollouts({ tx }: Context, { page, limit, ...filter }: RolloutQuery) {
  const found = await AgentRollout.query(tx)
    .where(omitUndefined(filter))
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(page - 1, limit);
  return toPage({ page, limit }, { ...found, results: found.results.map(shown) });
}

export async function readRollout({ tx }: Context, id: string) {
  const rollout = await AgentRollout.query(tx).findById(id);
  if (rollout === undefined) throw notFound('Rollout');
  return shownWithDevices(tx, rollout);
}

export async function startRollout(ctx: Context, keys: ReleaseKeys, request: NewRollout) {
  const { tx } = ctx;
  const { version, component, haltWhen } = request;
  // Neither a release nor another rollout comes or goes meanwhile.
  await lockReleases(tx);
  await assertTrusted(tx, keys, request);
  await assertNoneUnfinished(tx, component);
  const now = await currentTime(tx);
  const id = newId();
  const first = await firstWaveOf(tx, { id, component, version, silentMinutes: haltWhen.silentMinutes }, now);
  const rollout = await AgentRollout.query(tx).insertAndFetch({
    id,
    component,
    version,
    waves: request.waves ?? defaultWaves(first.places),
    firstDevices: first.devices,
    failedPercent: String(haltWhen.failedPercent),
    silentMinutes: haltWhen.silentMinutes,
    minDevices: haltWhen.minDevices,
    createdBy: ctx.caller.userId,
    waveOpenedAt: now,
    judgedFrom: now,
  });
  return shownWithDevices(tx, rollout);
}

async function assertTrusted(
  tx: Tx,
  keys: ReleaseKeys,
  { version, component }: Pick<NewRollout, 'version' | 'component'>,
): Promise<void> {
  const releases = await AgentRelease.query(tx).where({ version, component }).orderBy(['os', 'architecture']);
  if (releases.length === 0) throw notFound(`Version ${version} of ${component}`);
  const isTrusted = await keys.verifier(tx);
  const untrusted = releases
    .filter((release) => !isTrusted(release))
    .map(({ os, architecture }) => `${os} ${architecture}`);
  if (untrusted.length === 0) return;
  throw new AppError(
    'release_untrusted',
    `The rollout was not started: the signature of ${component} ${version} for ${untrusted.join(', ')} does not hold.`,
  );
}

async function assertNoneUnfinished(tx: Tx, component: NewRollout['component']): Promise<void> {
  const unfinished = await AgentRollout.query(tx)
    .where({ component })
    .whereIn('state', ['running', 'paused', 'halted'])
    .first();
  if (unfinished === undefined) return;
  throw new AppError(
    'conflict',
    `The rollout of ${component} ${unfinished.version} is ${unfinished.state}. Abort it before another one is started.`,
    { details: { rolloutId: unfinished.id } },
  );
}

/** Chooses the first wave among the devices that the rollout would upgrade. Throws `conflict` if there are none. */
async function firstWaveOf(
  tx: Tx,
  candidate: Pick<AgentRollout, 'id' | 'component' | 'version' | 'silentMinutes'>,
  now: Date,
) {
  const { component, version } = candidate;
  const rollout = {
    ...candidate,
    waves: [{ percent: 100, soakMinutes: 0 }],
    firstDevices: [],
    wave: 0,
    state: 'running' as const,
    waveOpenedAt: now,
    judgedFrom: now,
  };
  const classes = await stagedOrganizations(tx, component);
  const releases = await knownReleasesOfAll(tx, version);
  const groups = membersAmong(await countDevices(tx, rollout, { classes, now }), rollout, {
    classes,
    releases,
    now,
  });
  const fleet = groups.reduce((sum, { devices }) => sum + devices, 0);
  if (fleet === 0) {
    throw new AppError(
      'conflict',
      `No device would be upgraded to ${component} ${version}: none has the update policy staged, an older version, a build for its platform, and an agent that can install it.`,
    );
  }
  return chooseFirstWave(tx, candidate, { classes, groups, size: firstWaveSize(fleet) });
}

type Unfinished = Exclude<RolloutState, 'aborted' | 'completed'>;

export function pauseRollout(ctx: Context, id: string) {
  return change(ctx, id, { what: 'paused', from: ['running'], to: () => ({ state: 'paused' }) });
}

/** The open wave is observed anew. Failures that halted the rollout do not count any more. */
export function resumeRollout(ctx: Context, id: string) {
  return change(ctx, id, {
    what: 'resumed',
    from: ['paused', 'halted'],
    to: ({ state }, now) => ({
      state: 'running',
      waveOpenedAt: now,
      ...(state === 'halted' ? { judgedFrom: now } : {}),
    }),
  });
}

export function abortRollout(ctx: Context, id: string) {
  return change(ctx, id, {
    what: 'aborted',
    from: ['running', 'paused', 'halted'],
    to: (_rollout, now) => ({ state: 'aborted', endedAt: now }),
  });
}

interface Change {
  what: 'paused' | 'resumed' | 'aborted';
  from: readonly Unfinished[];
  to: (
    rollout: AgentRollout,
    now: Date,
  ) => Pick<Partial<AgentRollout>, 'state' | 'waveOpenedAt' | 'judgedFrom' | 'endedAt'>;
}

async function change(ctx: Context, id: string, { what, from, to }: Change) {
  const { tx } = ctx;
  const rollout = await AgentRollout.query(tx).findById(id).forUpdate();
  if (rollout === undefined) throw notFound('Rollout');
  const { state } = rollout;
  if (!from.some((one) => one === state)) {
    throw new AppError('conflict', `The rollout is ${state}, so it cannot be ${what}.`);
  }
  const now = await currentTime(tx);
  await rollout.$query(tx).patch(to(rollout, now));
  if (state === 'halted') await endHalt(tx, rollout, { why: `The rollout was ${what}.`, now });
  const changed = await AgentRollout.query(tx).findById(id).throwIfNotFound();
  ctx.recordChange({ state }, { state: changed.state });
  return shownWithDevices(tx, changed);
}

/** The text about a rollout that was halted. */

type Limits = Pick<AgentRollout, 'component' | 'version' | 'failedPercent' | 'silentMinutes'>;

/** How the devices that caused it spread over organizations: many of one organization may be its own problem. */
interface Spread {
  sizes: readonly number[];
  largest: string | undefined;
}

function haltMessage(
  rollout: Limits,
  because: { reason: HaltReason; outcomes: Outcomes; silence: Silence },
  spread: Spread,
): string {
  return `${whatHappened(rollout, because)} ${whereItHappened(spread)}`;
}

function whatHappened(
  { failedPercent, silentMinutes }: Limits,
  { reason, outcomes, silence }: { reason: HaltReason; outcomes: Outcomes; silence: Silence },
): string {
  const { failed, healthy, failuresInARow } = outcomes;
  const finished = failed + healthy;
  const sentences: Record<HaltReason, string> = {
    failed_in_a_row: `${failuresInARow} devices failed one after another; ${failed} of ${finished} that have finished failed.`,
    failed_share: `${failed} of ${finished} devices that have finished failed, which is ${percent(failed, finished)}; the limit is ${Number(failedPercent)} %.`,
    silent: `${silence.upgradedSilent} of ${silence.upgraded} upgraded devices have not been heard of for ${silentMinutes} minutes; of the other devices it is ${silence.othersSilent} of ${silence.others}.`,
  };
  return sentences[reason];
}

function whereItHappened({ sizes, largest }: Spread): string {
  const most = Math.max(0, ...sizes);
  const name = largest ?? 'an organization that was deleted';
  return sizes.length === 1
    ? `All of them belong to ${name}.`
    : `They belong to ${sizes.length} organizations; most of them, ${most}, to ${name}.`;
}

const percent = (part: number, whole: number) =>
  `${Math.round((whole === 0 ? 0 : part / whole) * 1000) / 10} %`;

/** Agent and watchdog can be halted at the same time, so that each has a kind of its own. */
const haltAlertKind = (component: string) => `${component}_rollout_halted`;

const NAMED_IN_ALERT = 20;

/** The alert of one organization, which names its own devices. */
function haltAlert(
  { component, version }: Limits,
  reason: HaltReason,
  { orgId, devices }: { orgId: string; devices: readonly NamedDevice[] },
): NewAlert {
  const names = devices.slice(0, NAMED_IN_ALERT).map(({ name }) => name);
  const rest = devices.length - names.length;
  const list = rest > 0 ? `${names.join(', ')} and ${rest} more` : names.join(', ');
  const verb = reason === 'silent' ? 'fell silent after' : 'failed in';
  return {
    orgId,
    kind: haltAlertKind(component),
    severity: 'high',
    title: `The rollout of ${component} ${version} was halted`,
    message: `These devices ${verb} the upgrade of the ${component} to ${version}: ${list}. No further devices are upgraded to it until the operator of the server decides.`,
    details: {
      component,
      version,
      reason,
      deviceCount: devices.length,
      deviceIds: devices.slice(0, NAMED_IN_ALERT).map(({ deviceId }) => deviceId),
    },
  };
}

/** Halting a rollout: what is recorded of it, and the alerts of the organizations whose devices caused it. */

/** So many devices are named in the record; all of them are counted. */
const NAMED_MAX = 100;

interface Halt {
  reason: HaltReason;
  outcomes: Outcomes;
  silence: Silence;
  /** The devices that caused it. */
  devices: readonly NamedDevice[];
  now: Date;
}

/** Halts a rollout. The caller has locked the row of the rollout. */
export async function halt(tx: Tx, rollout: AgentRollout, { devices, ...because }: Halt): Promise<void> {
  const byOrganization = groupByOrganization(devices);
  const largest = [...byOrganization].sort(([, a], [, b]) => b.length - a.length)[0]?.[0];
  await AgentRollout.query(tx).findById(rollout.id).patch({ state: 'halted' });
  await tx('agent_rollout_halts').insert({
    id: newId(),
    rollout_id: rollout.id,
    reason: because.reason,
    message: haltMessage(rollout, because, {
      sizes: [...byOrganization.values()].map(({ length }) => length),
      largest: largest === undefined ? undefined : await nameOf(tx, largest),
    }),
    devices: JSON.stringify(devices.slice(0, NAMED_MAX)),
    device_count: devices.length,
    halted_at: because.now,
  });
  // An organization learns about its own devices only.
  await raiseLastingAlerts(
    tx,
    [...byOrganization].map(([orgId, own]) => haltAlert(rollout, because.reason, { orgId, devices: own })),
  );
}

/** Ends the standing halt of a rollout, if there is one, and resolves its alerts. */
async function endHalt(
  tx: Tx,
  { id, component }: Pick<AgentRollout, 'id' | 'component'>,
  { why, now }: { why: string; now: Date },
): Promise<void> {
  await tx('agent_rollout_halts').where({ rollout_id: id }).whereNull('ended_at').update({ ended_at: now });
  await endLastingAlerts(tx, { kind: haltAlertKind(component), why });
}

function groupByOrganization(devices: readonly NamedDevice[]): Map<string, NamedDevice[]> {
  const groups = new Map<string, NamedDevice[]>();
  for (const device of devices) {
    const group = groups.get(device.orgId);
    if (group === undefined) groups.set(device.orgId, [device]);
    else group.push(device);
  }
  return groups;
}

async function nameOf(tx: Tx, orgId: string): Promise<string | undefined> {
  const row = await tx('organizations').select<{ name: string }[]>('name').where({ id: orgId }).first();
  return row?.name;
}
