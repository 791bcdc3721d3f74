import type { Context } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { newId } from '../../../platform/ids.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { lockReleases } from '../registry/release-lock.ts';
import type { ReleaseKeys } from '../registry/release-keys.ts';
import { AgentRelease } from '../registry/release.model.ts';
import { defaultWaves, firstWaveSize } from '../rollouts/first-plan.ts';
import { AgentRollout } from '../rollouts/rollout.model.ts';
import type { RolloutState } from '../rollouts/rollout.schema.ts';
import { knownReleasesOfAll } from '../targets/known-releases.ts';
import { membersAmong } from './census.ts';
import { shown, shownWithDevices } from './describe.ts';
import { countDevices } from './device-groups.ts';
import { databaseTime } from './examine.ts';
import { chooseFirstWave } from './first-wave.ts';
import { endHalt } from './halt.ts';
import type { NewRollout, RolloutQuery } from './rollout-answer.schema.ts';
import { stagedOrganizations } from './staged-organizations.ts';

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
  const now = await databaseTime(tx);
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

/** Chooses the first wave among the devices that the rollout would upgrade. Throws `conflict` where there are none. */
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
  const now = await databaseTime(tx);
  await rollout.$query(tx).patch(to(rollout, now));
  if (state === 'halted') await endHalt(tx, rollout, { why: `The rollout was ${what}.`, now });
  const changed = await AgentRollout.query(tx).findById(id).throwIfNotFound();
  ctx.recordChange({ state }, { state: changed.state });
  return shownWithDevices(tx, changed);
}
