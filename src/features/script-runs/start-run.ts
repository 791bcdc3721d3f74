import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { JobChange } from '../../hub/ports.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { SECRETS_CAPABILITY } from '../../protocol/index.ts';
import { type AddedCommand, addServerCommands, cancelUnsent, GONE, type Refusal } from '../commands/index.ts';
import { type DeviceTarget, withDevicesOfTarget } from '../device-targets/index.ts';
import { AWAITS_APPROVAL, commandTargets, type CommandTarget, supportsCommand } from '../devices/index.ts';
import type { Owner } from '../owners/index.ts';
import { type Script, versionOfScript } from '../scripts/index.ts';
import type { ScriptRun, ScriptVersion } from './script-run.model.ts';
import { RUN_DEVICES_MAX } from './script-run.schema.ts';
import {
  type DeviceOfRun,
  insertDevices,
  insertRun,
  lockUnadded,
  type NewRun,
  noteCommands,
  noteRefusals,
  noteStarted,
} from './script-run.queries.ts';

/**
 * A run begins in two parts. The request stores the run and its devices, and a job adds the commands in batches, each in
 * a short transaction: so a run of thousands of devices holds no lock for long, and goes on after a crash.
 */

export interface RunParts {
  hub: DeviceHub;
  /** Seals the secrets of scripts. */
  secrets: Encryptor;
}

export async function pinned(tx: Tx, script: Script): Promise<ScriptVersion> {
  const { id, orgId, name, language, content, osTypes, timeoutSeconds } = script;
  return {
    scriptId: id,
    scriptOrgId: orgId,
    scriptName: name,
    language,
    content,
    osTypes,
    timeoutSeconds,
    version: await versionOfScript(tx, id),
  };
}

/** The version that an earlier run has run. */
export const pinnedBy = (run: ScriptRun): ScriptVersion => {
  const { scriptId, scriptOrgId, scriptName, language, content, osTypes, timeoutSeconds, version } = run;
  return { scriptId, scriptOrgId, scriptName, language, content, osTypes, timeoutSeconds, version };
};

export interface RunRequest {
  script: ScriptVersion;
  partnerId: string;
  target: DeviceTarget | null;
  parameters: Record<string, string>;
  secretNames: readonly string[];
  expiresAt: Date;
  createdBy: string | null;
  againOf?: string;
  /** The schedule that starts it, and the time of it. */
  schedule?: { id: string; slotAt: Date };
}

/** The devices of a target, by their ids: one more than a run can have, if there are more. */
export async function devicesOf(
  tx: Tx,
  owner: Owner,
  target: DeviceTarget,
  caller?: TenantScope,
): Promise<DeviceOfRun[]> {
  const found = await withDevicesOfTarget(
    tx,
    owner,
    target,
    (devices) => devices.orderBy('d.id').limit(RUN_DEVICES_MAX + 1),
    caller,
  );
  return (found as { id: string; org_id: string }[]).map(({ id, org_id: orgId }) => ({ id, orgId }));
}

/** Stores a run with its devices. Throws `conflict` if there are none. */
export async function storeRun(
  tx: Tx,
  { script, againOf, schedule, secretNames, ...request }: RunRequest,
  devices: readonly DeviceOfRun[],
): Promise<NewRun> {
  if (devices.length === 0) {
    throw new AppError('conflict', 'There are no devices to run the script on.', { details: [] });
  }
  const run: NewRun = {
    ...script,
    ...request,
    secretNames: [...secretNames],
    id: newId(),
    orgIds: [...new Set(devices.map(({ orgId }) => orgId))],
    againOf: againOf ?? null,
    scheduleId: schedule?.id ?? null,
    slotAt: schedule?.slotAt ?? null,
  };
  await insertRun(tx, run);
  await insertDevices(tx, run.id, devices);
  return run;
}

/** The devices of a run, and nothing else: the scope in which its commands are added. */
export const scopeOfRun = ({
  partnerId,
  orgIds,
  createdBy,
}: Pick<ScriptRun, 'partnerId' | 'orgIds' | 'createdBy'>): TenantScope => ({
  scope: 'partner',
  userId: createdBy,
  partnerId,
  orgAccess: 'listed',
  orgIds,
});

/**
 * Adds the commands of some devices of a run that have none yet, and notes the devices that cannot run it with the reason.
 * After the commit, hand what was added to `announceCommands`.
 * @returns nothing added and nothing refused if there are no such devices any more: then the run has started; and what
 *   ended because this run takes its place
 */
export async function addCommandsOfRun(
  { tx, caller }: { tx: Tx; caller: TenantScope },
  run: NewRun,
  secrets: Readonly<Record<string, string>>,
  { hub, secrets: encryptor }: RunParts,
  atMost: number,
): Promise<{ added: AddedCommand[]; refused: Refusal[]; superseded: JobChange[] }> {
  const devices = await lockUnadded(tx, run.id, atMost);
  if (devices.length === 0) {
    await noteStarted(tx, run.id);
    return { added: [], refused: [], superseded: [] };
  }
  const found = new Map(
    (
      await commandTargets(
        { tx, caller },
        devices.map(({ id }) => id),
        { withPending: true },
      )
    ).map((device) => [device.id, device]),
  );
  const fit: CommandTarget[] = [];
  const refused: Refusal[] = [];
  for (const { id: deviceId } of devices) {
    const device = found.get(deviceId);
    const why = device === undefined ? GONE : misfit(hub, run, device);
    if (why !== undefined) refused.push({ deviceId, ...why });
    else if (device !== undefined) fit.push(device);
  }
  await noteRefusals(tx, run.id, refused);
  if (fit.length === 0) return { added: [], refused, superseded: [] };
  const superseded = run.scheduleId === null ? [] : await supersede(tx, run.scheduleId, run.id, fit);
  const named = Object.entries(secrets).map(([name, value]) => ({ name, value, ref: newId() }));
  const refs = Object.fromEntries(named.map(({ name, ref }) => [name, { secretRef: ref }]));
  const values = Object.fromEntries(named.map(({ ref, value }) => [ref, value]));
  const { language, content, timeoutSeconds, parameters } = run;
  const added = await addServerCommands(tx, fit, {
    type: 'script.run',
    payload: {
      language,
      content,
      timeoutSeconds,
      ...(Object.keys(parameters).length === 0 ? {} : { parameters }),
      ...(named.length === 0 ? {} : { secrets: refs }),
    },
    ...(named.length === 0 ? {} : { secrets: { values, encryptor } }),
    ttlSeconds: Math.max(1, Math.ceil((run.expiresAt.getTime() - clock.now()) / 1000)),
    timeoutSeconds,
    createdBy: run.createdBy,
    execution: { id: run.id, scriptId: run.scriptId },
  });
  await noteCommands(tx, run.id, added);
  return { added, refused, superseded };
}

/** A device that was away at several times of a schedule runs the script once when it returns, for the last of them. */
const supersede = (tx: Tx, scheduleId: string, runId: string, devices: readonly CommandTarget[]) =>
  cancelUnsent(
    tx,
    { sql: 'select id from script_runs where schedule_id = ? and id <> ?', values: [scheduleId, runId] },
    { deviceIds: devices.map(({ id }) => id), reason: 'superseded' },
  );

/** Why a device cannot run the script; undefined if it can. */
function misfit(
  hub: DeviceHub,
  { scriptOrgId, osTypes, secretNames }: Pick<ScriptRun, 'scriptOrgId' | 'osTypes' | 'secretNames'>,
  device: CommandTarget,
): Omit<Refusal, 'deviceId'> | undefined {
  if (scriptOrgId !== null && scriptOrgId !== device.orgId) {
    return { code: 'FORBIDDEN', message: 'The script belongs to another organization.' };
  }
  if (!device.isManageable) {
    return { code: 'TENANT_INACTIVE', message: 'The organization of this device is not active.' };
  }
  if (device.isPending) return { code: 'DEVICE_PENDING', message: AWAITS_APPROVAL };
  if (osTypes.length > 0 && !osTypes.includes(device.osType)) {
    return { code: 'CONFLICT', message: `The script is not for ${device.osType}.` };
  }
  if (!supportsCommand(hub, device, 'script.run')) {
    return { code: 'CAPABILITY_MISSING', message: 'The agent on this device cannot run scripts.' };
  }
  if (secretNames.length > 0 && !supportsCommand(hub, device, SECRETS_CAPABILITY)) {
    return { code: 'CAPABILITY_MISSING', message: 'The agent on this device does not support secrets.' };
  }
  return undefined;
}

/** An entry names so many devices, and says how many there were. */
const AUDITED_DEVICES_MAX = 500;

/** Each organization finds in its trail what was run on its devices. */
export const notesOfRun = (
  { id, scriptId, scriptName }: { id: string; scriptId?: string | null; scriptName: string },
  devices: readonly DeviceOfRun[],
  details: Record<string, unknown> = {},
) =>
  [...new Set(devices.map(({ orgId }) => orgId))].map((orgId) => {
    const own = devices.filter((device) => device.orgId === orgId);
    return {
      orgId,
      ...(scriptId == null ? {} : { resourceId: scriptId }),
      resourceName: scriptName,
      details: {
        ...details,
        executionId: id,
        devices: own.length,
        deviceIds: own.slice(0, AUDITED_DEVICES_MAX).map((device) => device.id),
      },
    };
  });
