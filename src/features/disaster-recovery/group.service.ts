import { holds, type Context } from '../../../platform/context.ts';
import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { AppError, invalid, noFields, notFound } from '../../../platform/errors.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { newestSnapshots, targetPathFault } from '../../backup/index.ts';
import { positionsOutsideOrganization } from '../../devices/index.ts';
import { brokenDependency, firstBroken } from './group-order.ts';
import { pinScripts, removeUnusedPins, scriptIdsOf, shownGroups } from './pinned-scripts.ts';
import { type PinnedScript, RecoveryGroup, type RecoveryPlan } from './plan.model.ts';
import { DEVICES_MAX, GROUPS_MAX, type NewRecoveryGroup, type RecoveryGroupPatch } from './plan.schema.ts';
import { findPlanToChange, groupsOf } from './plan.service.ts';
import { machineFault, wantedSnapshot } from './source-snapshot.ts';
import { machineOf, type RecoveryDevice, sourceKey } from './target.schema.ts';

export async function addGroup(ctx: Context, planId: string, input: NewRecoveryGroup) {
  const plan = await findPlanToChange(ctx, planId);
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
  return shownGroup(ctx, added);
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
  return shownGroup(ctx, updated);
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

async function shownGroup({ tx }: Context, group: RecoveryGroup) {
  const [shown] = await shownGroups(tx, group.orgId, [group]);
  if (shown === undefined) throw new Error('one group is shown as one');
  return shown;
}

async function findGroup(ctx: Context, planId: string, groupId: string) {
  const plan = await findPlanToChange(ctx, planId);
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

/** What the devices of a group must not be. Names all of them that are wrong in the same way. */
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

/** What the newest snapshots say of it. What comes later is found out when the plan is executed. */
async function assertMachines(
  ctx: Context,
  orgId: string,
  devices: readonly RecoveryDevice[],
): Promise<void> {
  const snapshots = await newestSnapshots(ctx.tx, orgId, devices.map(wantedSnapshot));
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
    const rule = targetPathFault(osType, restore.targetPath);
    if (rule !== undefined) throw invalid(`body.devices.${index}.restore.targetPath`, rule);
  }
}

const NO_SCRIPTS = { devices: [] as RecoveryDevice[], scripts: [] as PinnedScript[] };

/**
 * The versions of the scripts that a group has after a change: one that the group has stays, unless its newest one is
 * asked for. A script runs with the rights of the agent, so anyone who names one needs the right to start scripts.
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
