import { holds, type Context } from '../../../platform/context.ts';
import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { AppError, invalid, noFields, notFound } from '../../../platform/errors.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { newestSnapshots, targetPathFault } from '../../backup/index.ts';
import { positionsOutsideOrganization } from '../../devices/index.ts';
import { scriptsForOrganization } from '../../scripts/index.ts';
import { brokenDependency, firstBroken } from './group-order.ts';
import { RecoveryGroup, type RecoveryPlan } from './plan.model.ts';
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
  return RecoveryGroup.query(ctx.tx).insertAndFetch({
    ...rest,
    dependsOnGroupId,
    estimatedDurationMinutes,
    planId,
    orgId: plan.orgId,
  });
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
  return patchRecorded(ctx, group, omitUndefined(patch));
}

export async function removeGroup(ctx: Context, { id: planId, groupId }: { id: string; groupId: string }) {
  const { groups, group } = await findGroup(ctx, planId, groupId);
  const dependent = groups.find(({ dependsOnGroupId }) => dependsOnGroupId === groupId);
  if (dependent !== undefined) {
    throw new AppError('conflict', `The group "${dependent.name}" depends on this one.`);
  }
  await RecoveryGroup.query(ctx.tx).deleteById(groupId);
  return { success: true as const, group };
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
  await assertScripts(ctx, orgId, devices);
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

/** A script runs with the rights of the agent, so anyone who names one needs the right to start scripts. */
async function assertScripts(ctx: Context, orgId: string, devices: readonly RecoveryDevice[]): Promise<void> {
  const wanted = devices.flatMap(({ checks }, index) =>
    checks.flatMap((check, at) => (check.type === 'script' ? [{ id: check.scriptId, index, at }] : [])),
  );
  if (wanted.length === 0) return;
  if (!holds(ctx.caller.permissions, 'scripts:execute')) {
    throw new AppError('forbidden', 'Checks that run a script need the permission scripts:execute.');
  }
  const ids = [...new Set(wanted.map(({ id }) => id))];
  const known = new Set((await scriptsForOrganization(ctx.tx, ids, orgId)).map(({ id }) => id));
  const unknown = wanted.find(({ id }) => !known.has(id));
  if (unknown === undefined) return;
  throw invalid(
    `body.devices.${unknown.index}.checks.${unknown.at}.scriptId`,
    'must be a script that runs in the organization of the plan',
  );
}
