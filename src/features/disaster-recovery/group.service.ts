import { holds, type Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { snapshotReading, restoreRules } from '../backup/index.ts';
import { positionsOutsideOrganization } from '../devices/index.ts';
import { machineFault, wantedSnapshot } from './compose-steps.ts';
import { pinScripts, removeUnusedPins } from './disaster-recovery.queries.ts';
import { scriptIdsOf, toGroupResponses, lockPlan, groupsOf } from './plan.service.ts';
import { type PinnedScript, RecoveryGroup, type RecoveryPlan } from './disaster-recovery.model.ts';
import {
  DEVICES_MAX,
  GROUPS_MAX,
  type NewRecoveryGroup,
  type RecoveryGroupPatch,
  machineOf,
  type RecoveryDevice,
  sourceKey,
} from './plan.schema.ts';

export async function addGroup(ctx: Context, planId: string, input: NewRecoveryGroup) {
  const plan = await lockPlan(ctx, planId);
  const groups = await groupsOf(ctx.tx, plan);
  if (groups.length >= GROUPS_MAX) {
    throw new AppError('limit_reached', `A recovery plan has at most ${GROUPS_MAX} groups.`);
  }
  const { dependsOnGroupId = null, estimatedDurationMinutes = null, ...rest } = input;
  assertOrder(groups, { id: '', sequence: input.sequence, dependsOnGroupId });
  await assertDevices(ctx, plan, input.devices, groups);
  const added = await RecoveryGroup.query(ctx.tx).insertAndFetch({
    ...rest,
    scripts: await scriptsOf(ctx, plan, NO_SCRIPTS, input),
    dependsOnGroupId,
    estimatedDurationMinutes,
    planId,
    orgId: plan.orgId,
  });
  return toGroupResponse(ctx, added);
}

export async function updateGroup(
  ctx: Context,
  { id: planId, groupId }: { id: string; groupId: string },
  patch: RecoveryGroupPatch,
) {
  const { plan, groups, group } = await findGroup(ctx, planId, groupId);
  if (Object.keys(omitUndefined(patch)).length === 0) throw noFields();
  const others = groups.filter(({ id }) => id !== groupId);
  const { sequence = group.sequence, dependsOnGroupId = group.dependsOnGroupId } = patch;
  assertOrder(others, { id: groupId, sequence, dependsOnGroupId });
  if (patch.devices !== undefined) await assertDevices(ctx, plan, patch.devices, others);
  const { repinScripts: _, ...changes } = patch;
  const scripts = await scriptsOf(ctx, plan, group, patch);
  const updated = await patchRecorded(ctx, group, { ...omitUndefined(changes), scripts });
  await removeUnusedPins(ctx.tx, plan);
  return toGroupResponse(ctx, updated);
}

export async function removeGroup(ctx: Context, { id: planId, groupId }: { id: string; groupId: string }) {
  const { plan, groups, group } = await findGroup(ctx, planId, groupId);
  const dependent = groups.find(({ dependsOnGroupId }) => dependsOnGroupId === groupId);
  if (dependent !== undefined) {
    throw new AppError('conflict', `The group "${dependent.name}" depends on this one.`);
  }
  await RecoveryGroup.query(ctx.tx).deleteById(groupId);
  await removeUnusedPins(ctx.tx, plan);
  return { success: true as const, group };
}

async function toGroupResponse({ tx }: Context, group: RecoveryGroup) {
  const [shown] = await toGroupResponses(tx, group.orgId, [group]);
  if (shown === undefined) throw new Error('one group is shown as one');
  return shown;
}

async function findGroup(ctx: Context, planId: string, groupId: string) {
  const plan = await lockPlan(ctx, planId);
  const groups = await groupsOf(ctx.tx, plan);
  const group = groups.find(({ id }) => id === groupId);
  if (group === undefined) throw notFound('Recovery group');
  return { plan, groups, group };
}

interface Ordered {
  id: string;
  sequence: number;
  dependsOnGroupId: string | null;
}

function assertOrder(others: readonly RecoveryGroup[], group: Ordered): void {
  const rule = brokenDependency(others, group);
  if (rule !== undefined) throw invalid('body.dependsOnGroupId', rule);
  if (firstBroken([...others, group]) === undefined) return;
  throw invalid('body.sequence', 'must not be higher than that of a group that depends on this one');
}

/** Checks the devices of a group. Each error names all devices that it concerns. */
async function assertDevices(
  ctx: Context,
  { orgId }: RecoveryPlan,
  devices: readonly RecoveryDevice[],
  others: readonly RecoveryGroup[],
): Promise<void> {
  const elsewhere = others.flatMap((group) => group.devices);
  if (elsewhere.length + devices.length > DEVICES_MAX) {
    throw invalid('body.devices', `must have at most ${DEVICES_MAX} devices in all groups of the plan`);
  }
  const known = new Set(elsewhere.map(sourceKey));
  for (const [index, entry] of devices.entries()) {
    const key = sourceKey(entry);
    if (known.has(key)) throw invalid(`body.devices.${index}.deviceId`, 'must not be in the plan twice');
    known.add(key);
  }
  const [foreignSource] = await positionsOutsideOrganization(
    ctx,
    orgId,
    devices.map(({ deviceId }) => deviceId),
  );
  if (foreignSource !== undefined) throw notOfPlan(foreignSource, 'deviceId');
  const [foreignTarget] = await positionsOutsideOrganization(
    ctx,
    orgId,
    devices.map(({ deviceId, targetDeviceId }) => targetDeviceId ?? deviceId),
  );
  if (foreignTarget !== undefined) throw notOfPlan(foreignTarget, 'targetDeviceId');
  await assertMachines(ctx, orgId, devices);
  await assertTargetPaths(ctx, devices);
}

const notOfPlan = (index: number, field: string) =>
  invalid(`body.devices.${index}.${field}`, 'must be a device of the organization of the plan');

/** Checks against the newest snapshots. Later ones are checked when the plan is executed. */
async function assertMachines(
  ctx: Context,
  orgId: string,
  devices: readonly RecoveryDevice[],
): Promise<void> {
  const snapshots = await snapshotReading.newestSnapshots(ctx.tx, orgId, devices.map(wantedSnapshot));
  for (const [index, entry] of devices.entries()) {
    const fault = machineFault(snapshots[index]?.machines ?? null, machineOf(entry));
    if (fault !== undefined) throw invalid(`body.devices.${index}.restore.machine`, fault.rule);
  }
}

async function assertTargetPaths(ctx: Context, devices: readonly RecoveryDevice[]): Promise<void> {
  const ids = devices.map(({ deviceId, targetDeviceId }) => targetDeviceId ?? deviceId);
  const rows = await ctx
    .tx('devices')
    .whereIn('id', ids)
    .select<{ id: string; os_type: 'windows' | 'macos' | 'linux' }[]>('id', 'os_type');
  const systems = new Map(rows.map(({ id, os_type: osType }) => [id, osType]));
  for (const [index, { deviceId, targetDeviceId, restore }] of devices.entries()) {
    const osType = systems.get(targetDeviceId ?? deviceId);
    if (restore.type !== 'files' || restore.targetPath === undefined || osType === undefined) continue;
    const rule = restoreRules.targetPathFault(osType, restore.targetPath);
    if (rule !== undefined) throw invalid(`body.devices.${index}.restore.targetPath`, rule);
  }
}

const NO_SCRIPTS = { devices: [] as RecoveryDevice[], scripts: [] as PinnedScript[] };

/**
 * The script versions of a group after a change: existing versions are kept, unless the newest ones are requested. A
 * script runs with the rights of the agent, so choosing one requires the right to start scripts.
 */
async function scriptsOf(
  ctx: Context,
  plan: RecoveryPlan,
  before: Pick<RecoveryGroup, 'devices' | 'scripts'>,
  { devices, repinScripts = [] }: Pick<RecoveryGroupPatch, 'devices' | 'repinScripts'>,
): Promise<PinnedScript[]> {
  const ids = scriptIdsOf(devices ?? before.devices);
  const isChosen = (devices !== undefined && ids.length > 0) || repinScripts.length > 0;
  if (isChosen && !holds(ctx.caller.permissions, 'scripts:execute')) {
    throw new AppError('forbidden', 'Checks that run a script need the permission scripts:execute.');
  }
  const known = new Map(before.scripts.map((script) => [script.scriptId, script]));
  for (const id of repinScripts) known.delete(id);
  const missing = ids.filter((id) => !known.has(id));
  for (const script of await pinScripts(ctx.tx, plan, missing)) known.set(script.scriptId, script);
  for (const [index, id] of repinScripts.entries()) {
    if (ids.includes(id) && known.has(id)) continue;
    throw invalid(
      `body.repinScripts.${index}`,
      `must be a script that a check of the group names and that ${RUNS}`,
    );
  }
  for (const [index, { checks }] of (devices ?? []).entries()) {
    for (const [at, check] of checks.entries()) {
      if (check.type !== 'script' || known.has(check.scriptId)) continue;
      throw invalid(`body.devices.${index}.checks.${at}.scriptId`, `must be a script that ${RUNS}`);
    }
  }
  return ids.flatMap((id) => known.get(id) ?? []);
}

const RUNS = 'runs in the organization of the plan';

/** Whether the groups of a plan have a possible order. */

interface OrderedGroup {
  id: string;
  sequence: number;
  dependsOnGroupId: string | null;
}

/**
 * The rule that the dependency of a group breaks; `undefined` if it breaks none. A group waits for its dependency and
 * for all groups of lower sequences, so a dependency on a higher sequence would be circular.
 */
export function brokenDependency(groups: readonly OrderedGroup[], group: OrderedGroup): string | undefined {
  const byId = new Map(groups.map((each) => [each.id, each]));
  byId.set(group.id, group);
  const seen = new Set([group.id]);
  let before = group;
  for (let id = group.dependsOnGroupId; id !== null; ) {
    const next = byId.get(id);
    if (next === undefined) return 'must be another group of the same plan';
    if (seen.has(id)) return 'must not lead back to the group itself';
    if (next.sequence > before.sequence) {
      return 'must not have a higher sequence than the group that depends on it';
    }
    seen.add(id);
    before = next;
    id = next.dependsOnGroupId;
  }
  return undefined;
}

/** The first group whose dependency a change of another one breaks. */
const firstBroken = (groups: readonly OrderedGroup[]): OrderedGroup | undefined =>
  groups.find((group) => brokenDependency(groups, group) !== undefined);
