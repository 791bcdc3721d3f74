import { clock } from '../../clock.ts';
import { type Context, holds } from '../../platform/context.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { type Page, toPage } from '../../platform/http/pagination.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { announceCommands, GONE, readCommands, type Refusal } from '../commands/index.ts';
import { assertTarget, type DeviceTarget } from '../device-targets/index.ts';
import { commandTargets, devicesFound } from '../devices/index.ts';
import { assertOrganizationAccess, readOrganization } from '../organizations/index.ts';
import type { Owner } from '../owners/index.ts';
import { assertValuesFit, readScript, type Script, withDefaults } from '../scripts/index.ts';
import { enqueueCancel, enqueueStart } from './script-run.job.ts';
import { ScriptRun } from './script-run.model.ts';
import {
  cancelUnadded,
  type DeviceOfRun,
  devicesToRepeat,
  emptyTally,
  findOutput,
  noteStarted,
  pageOfDevices,
  pageOfOutputs,
  runsFound,
  tallies,
  type Tally,
  visibleRuns,
} from './script-run.queries.ts';
import {
  FAILED_OUTCOMES,
  MAX_DEVICES,
  type NewScriptRun,
  type OutputGroup,
  RUN_DEVICES_MAX,
  type RunAgain,
  type RunDevice,
  type RunDeviceQuery,
  type RunOutput,
  type ScriptExecution,
  type ScriptRun as RunResponse,
  type ScriptRunDetails,
  type ScriptRunQuery,
} from './script-run.schema.ts';
import { addCommandsOfRun, devicesOf, pinned, pinnedBy, type RunParts, storeRun } from './start-run.ts';

export async function listRuns(ctx: Context, query: ScriptRunQuery): Promise<Page<RunResponse>> {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await runsFound(ctx, query).page(query.page - 1, query.limit);
  const counted = await tallies(
    ctx,
    results.map(({ id }) => id),
  );
  return toPage(query, {
    results: results.map((run) => toResponse(ctx, run, counted.get(run.id) ?? emptyTally())),
    total,
  });
}

export async function readRun(ctx: Context, id: string): Promise<ScriptRunDetails> {
  return toDetails(ctx, await findRun(ctx, id));
}

async function findRun(ctx: Context, id: string): Promise<ScriptRun> {
  const [run] = await visibleRuns(ctx).where('script_runs.id', id);
  if (run === undefined) throw notFound('Script run');
  return run;
}

export async function listRunDevices(
  ctx: Context,
  id: string,
  query: RunDeviceQuery,
): Promise<Page<RunDevice>> {
  assertReadsDevices(ctx);
  await findRun(ctx, id);
  return pageOfDevices(ctx, id, query);
}

export async function listRunOutputs(
  ctx: Context,
  id: string,
  query: { page: number; limit: number },
): Promise<Page<OutputGroup>> {
  assertReadsDevices(ctx);
  await findRun(ctx, id);
  return pageOfOutputs(ctx, id, query);
}

export async function readRunOutput(ctx: Context, id: string, outputHash: string): Promise<RunOutput> {
  assertReadsDevices(ctx);
  await findRun(ctx, id);
  const output = await findOutput(ctx, id, outputHash);
  if (output === undefined) throw notFound('Output');
  return output;
}

/** What devices have reported is shown to those who may read the same with the devices. */
function assertReadsDevices({ caller }: Context): void {
  if (holds(caller.permissions, 'devices:read')) return;
  throw new AppError('forbidden', 'This needs the permission devices:read.');
}

/** A run that was started, with its devices for the audit trail. */
type Started = ScriptRunDetails & { devices: readonly DeviceOfRun[] };

/** Starts a script on the devices of a target. A job adds the commands. */
export async function startRun(
  ctx: Context,
  scriptId: string,
  { target, orgId, parameters = {}, secrets = {}, ttlSeconds }: NewScriptRun,
  jobs: Jobs,
): Promise<Started & { unknownDeviceIds: string[] }> {
  const script = await readScript(ctx, scriptId);
  assertValuesFit(script.parameters, { parameters, secretNames: Object.keys(secrets) });
  const owner = await ownerOfTarget(ctx, script, orgId);
  // A device that is gone stops none of the others.
  if (target.deviceIds === undefined) await assertTarget(ctx, owner, target, 'body.target');
  const devices = await devicesOf(ctx.tx, owner, target, ctx.caller);
  if (devices.length > RUN_DEVICES_MAX) {
    throw invalid('body.target', `finds more than ${RUN_DEVICES_MAX} devices`);
  }
  const run = await store(ctx, jobs, devices, {
    script: await pinned(ctx.tx, script),
    partnerId: owner.partnerId,
    target,
    parameters: withDefaults(script.parameters, parameters),
    secrets,
    expiresAt: inSeconds(ttlSeconds),
  });
  const known = new Set(devices.map(({ id }) => id));
  return {
    ...run,
    unknownDeviceIds: (target.deviceIds ?? []).filter((id) => !known.has(id)),
  };
}

/** Whose devices a script can run on: those of its organization, or of one that was named, or of the whole partner. */
async function ownerOfTarget(ctx: Context, script: Script, orgId: string | undefined): Promise<Owner> {
  if (orgId !== undefined) {
    await assertOrganizationAccess(ctx, orgId);
    if (script.orgId !== null && script.orgId !== orgId) {
      throw invalid('body.orgId', 'must be the organization of the script');
    }
  }
  const own = script.orgId ?? orgId ?? null;
  return { partnerId: await partnerOf(ctx, script), orgId: own };
}

/** A script belongs to a partner or to an organization of it. */
async function partnerOf(ctx: Context, { partnerId, orgId }: Script): Promise<string> {
  if (partnerId !== null) return partnerId;
  if (orgId === null) throw new Error('a script has no owner');
  return (await readOrganization(ctx, orgId)).partnerId;
}

async function store(
  ctx: Context,
  jobs: Jobs,
  devices: readonly DeviceOfRun[],
  {
    secrets,
    ...request
  }: Omit<Parameters<typeof storeRun>[1], 'createdBy' | 'secretNames'> & {
    secrets: Record<string, string>;
  },
): Promise<Started> {
  const { id, partnerId } = await storeRun(
    ctx.tx,
    { ...request, secretNames: Object.keys(secrets), createdBy: ctx.caller.userId },
    devices,
  );
  await enqueueStart(jobs, ctx.tx, { runId: id, partnerId, secrets });
  return { ...(await readRun(ctx, id)), devices };
}

/** Starts the same version with the same parameters again. */
export async function runAgain(
  ctx: Context,
  id: string,
  { which, secrets = {} }: RunAgain,
  jobs: Jobs,
): Promise<Started> {
  const former = await findRun(ctx, id);
  const missing = former.secretNames.filter((name) => secrets[name] === undefined);
  if (missing.length > 0) {
    throw invalid(
      'body.secrets',
      `must have a value for ${missing.join(', ')}, because secrets are not kept`,
    );
  }
  const unknown = Object.keys(secrets).filter((name) => !former.secretNames.includes(name));
  if (unknown.length > 0) throw invalid('body.secrets', `must not have ${unknown.join(', ')}`);
  const devices = await devicesToRepeat(ctx, former, which === 'failed' ? FAILED_OUTCOMES : undefined);
  return store(ctx, jobs, devices, {
    script: pinnedBy(former),
    partnerId: former.partnerId,
    // Its devices are those of the run before. What was asked for then may name others that the caller cannot access.
    target: null,
    parameters: former.parameters,
    secrets,
    expiresAt: new Date(clock.now() + former.expiresAt.getTime() - former.createdAt.getTime()),
    againOf: id,
  });
}

/** Cancels a run: what was not sent ends at once, and devices that run the script are asked to stop. */
export async function cancelRun(ctx: Context, id: string, jobs: Jobs): Promise<ScriptRunDetails> {
  const run = await findRun(ctx, id);
  if (!reachesWhole(ctx, run)) {
    throw new AppError('forbidden', 'This run concerns organizations that you cannot access.');
  }
  const cancelRequestedAt = clock.date();
  const wasOpen =
    (run.state === 'starting' || run.state === 'running') &&
    (await ScriptRun.query(ctx.tx)
      .findById(id)
      .whereNull('cancel_requested_at')
      .patch({ cancelRequestedAt }));
  if (wasOpen !== 1) throw new AppError('conflict', `The run is not in progress: it is ${run.state}.`);
  await cancelUnadded(ctx.tx, id);
  await enqueueCancel(jobs, ctx.tx, run);
  const cancelled = await readRun(ctx, id);
  ctx.recordChange(
    { state: run.state, cancelRequestedAt: null },
    { state: cancelled.state, cancelRequestedAt },
  );
  return cancelled;
}

/** Starts a script on a few devices, and answers with their commands. */
export async function executeScript(
  ctx: Context,
  id: string,
  { parameters = {}, secrets = {}, ...targets }: ScriptExecution,
  parts: RunParts,
) {
  const script = await readScript(ctx, id);
  assertValuesFit(script.parameters, { parameters, secretNames: Object.keys(secrets) });
  const target = targetOf(targets);
  const deviceIds = target.deviceIds ?? (await found(ctx, target.filterId));
  const devices = await commandTargets(ctx, deviceIds, { withPending: true });
  const gone = deviceIds
    .filter((deviceId) => devices.every((device) => device.id !== deviceId))
    .map((deviceId) => ({ deviceId, ...GONE }));
  if (devices.length === 0) throw noneCan(gone);
  const run = await storeRun(
    ctx.tx,
    {
      script: await pinned(ctx.tx, script),
      partnerId: await partnerOf(ctx, script),
      target,
      parameters: withDefaults(script.parameters, parameters),
      secretNames: Object.keys(secrets),
      expiresAt: inSeconds(TTL_SECONDS),
      createdBy: ctx.caller.userId,
    },
    devices,
  );
  const { added, refused: misfits } = await addCommandsOfRun(ctx, run, secrets, parts, MAX_DEVICES);
  const places = new Map(deviceIds.map((deviceId, place) => [deviceId, place]));
  const asNamed = <T extends { deviceId: string }>(rows: T[]): T[] =>
    rows.sort((a, b) => (places.get(a.deviceId) ?? 0) - (places.get(b.deviceId) ?? 0));
  const refused = asNamed([...misfits, ...gone]);
  if (added.length === 0) throw noneCan(refused);
  await noteStarted(ctx.tx, run.id);
  const commands = asNamed(await readCommands(ctx, added, parts.hub));
  ctx.afterCommit(() => announceCommands(parts.hub, added));
  return { executionId: run.id, commands, refused, script };
}

const TTL_SECONDS = 24 * 3600;

const inSeconds = (seconds: number): Date => new Date(clock.now() + seconds * 1000);

const noneCan = (refused: readonly Refusal[]) =>
  new AppError('conflict', 'None of these devices can run the script.', { details: refused });

function targetOf({ deviceIds, filterId }: Pick<ScriptExecution, 'deviceIds' | 'filterId'>): DeviceTarget {
  if (deviceIds !== undefined && filterId === undefined) return { deviceIds };
  if (deviceIds === undefined && filterId !== undefined) return { filterId };
  throw invalid('body.filterId', 'Provide exactly one of deviceIds or filterId.');
}

async function found(ctx: Context, filterId: string | undefined): Promise<string[]> {
  if (filterId === undefined) return [];
  const ids = await devicesFound(ctx, filterId, { atMost: MAX_DEVICES, path: 'body.filterId' });
  if (ids.length === 0) throw new AppError('conflict', 'The filter matches no device.', { details: [] });
  return ids;
}

async function toDetails(ctx: Context, run: ScriptRun): Promise<ScriptRunDetails> {
  const tally = (await tallies(ctx, [run.id])).get(run.id) ?? emptyTally();
  return {
    ...toResponse(ctx, run, tally),
    content: maySeeContent(ctx, run) ? run.content : null,
    osTypes: run.osTypes,
    timeoutSeconds: run.timeoutSeconds,
  };
}

/** People of an organization do not see the scripts of its partner, unless they see what they may execute. */
const maySeeContent = ({ caller }: Context, run: ScriptRun): boolean =>
  caller.scope === 'system' ||
  caller.partnerId === run.partnerId ||
  (run.scriptOrgId !== null && run.visibleOrgIds.includes(run.scriptOrgId)) ||
  holds(caller.permissions, 'scripts:execute');

/** Whether the caller can access all devices of a run. Of organizations that were deleted since, nobody can. */
const reachesWhole = ({ caller }: Pick<Context, 'caller'>, run: ScriptRun): boolean =>
  caller.scope === 'system' ||
  (caller.partnerId === run.partnerId && caller.orgAccess === 'all') ||
  run.visibleOrgIds.length === run.orgIds.length;

function toResponse({ caller }: Context, run: ScriptRun, { counts, total, finishedAt }: Tally): RunResponse {
  const isOpen = run.state === 'starting' || run.state === 'running' || run.state === 'cancelling';
  return {
    id: run.id,
    partnerId: run.partnerId,
    orgIds: run.visibleOrgIds,
    scriptId: run.scriptId,
    scriptName: run.scriptName,
    language: run.language,
    version: run.version,
    state: run.state,
    counts,
    total,
    parameters: holds(caller.permissions, 'scripts:execute') ? run.parameters : null,
    secretNames: run.secretNames,
    target: reachesWhole({ caller }, run) ? run.target : null,
    againOf: run.againOf,
    scheduleId: run.scheduleId,
    createdBy: run.createdBy,
    createdByName: run.createdByName,
    createdAt: run.createdAt,
    expiresAt: run.expiresAt,
    startedAt: run.startedAt,
    finishedAt: isOpen ? null : finishedAt,
    cancelRequestedAt: run.cancelRequestedAt,
    error: run.error,
  };
}
