import { clock } from '../../../../clock.ts';
import type { DeviceHub } from '../../../../hub/index.ts';
import type { Tx } from '../../../../platform/db/transaction.ts';
import type { Jobs } from '../../../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../../platform/secrets/sealed.ts';
import type { CommandPayload, DurableCommandType, ServiceCheck } from '../../../../protocol/index.ts';
import {
  orderBackup,
  orderFiles,
  orderFilesDiscard,
  orderMachine,
  orderMachineBackup,
  orderMachineDiscard,
  WorkRefused,
} from '../../../backup/index.ts';
import { type AddedCommand, addServerCommand } from '../../../commands/index.ts';
import { supportsCommand } from '../../../devices/index.ts';
import { scriptToRun } from '../../plans/pinned-scripts.ts';
import { ActionSpec } from '../action-spec.ts';
import type { RecoveryAction, RecoveryExecution } from '../execution.model.ts';
import type { DeviceNow } from './observe.ts';

/** Gives one action to its device, within a transaction: it is given once, or not at all. */

export interface StartParts {
  hub: DeviceHub;
  jobs: Jobs;
  secrets: Sealer;
}

export interface Start {
  execution: RecoveryExecution;
  action: RecoveryAction;
  /** All of its step. */
  siblings: readonly RecoveryAction[];
  device: DeviceNow | undefined;
}

export type Started =
  | { changes: Partial<RecoveryAction>; command?: AddedCommand }
  /** To be tried again later. */
  | 'busy'
  /** What the store says of the guest is missing. It is read outside of the transaction, by `readGuestOf`. */
  | 'unread';

/** How long a device that is away may take to come back for the work. */
const MAIN_TTL_SECONDS = 900;
/** What is to be taken down waits for its device for longer. */
export const CLEANUP_TTL_SECONDS = 7 * 86_400;
const SCRIPT_MARGIN_SECONDS = 60;

/** Throws `WorkRefused` where it cannot be given. */
export async function startAction(tx: Tx, start: Start, parts: StartParts): Promise<Started> {
  const { action, device, execution } = start;
  if (device === undefined) {
    throw new WorkRefused('DEVICE_MISSING', 'The device does not belong to the organization any more.');
  }
  const spec = ActionSpec.parse(action.spec);
  const common = { device, ttlSeconds: MAIN_TTL_SECONDS, createdBy: execution.createdBy };
  switch (spec.does) {
    case 'files': {
      assertCan(parts.hub, device, 'backup.restore', 'restore backups');
      const snapshotId = snapshotOf(spec, start.siblings);
      const { selectedPaths, targetPath, fromPath, overwrite } = spec;
      const order = { ...common, snapshotId, selectedPaths, targetPath, fromPath, overwrite };
      const { restoreId, command } = await orderFiles(tx, order, parts.secrets);
      return { changes: { restoreId, commandId: command.id }, command };
    }
    case 'machine': {
      const type = spec.kind === 'as_vm' ? 'backup.vm-from-image' : 'backup.vm-instant-boot';
      assertCan(parts.hub, device, type, 'start virtual machines');
      if (spec.snapshotId === null) throw noSnapshot(spec.machine);
      if (spec.refusal !== null) throw new WorkRefused(spec.refusal.code, spec.refusal.message);
      const { kind, vmName, memoryMb, cpuCount, network, snapshotId, machineId } = spec;
      if (machineId !== null && spec.guest === null) return 'unread';
      const guest = machineId === null || spec.guest === null ? null : { ...spec.guest, id: machineId };
      const order = { ...common, snapshotId, kind, guest, vmName, memoryMb, cpuCount, network };
      const { vmRestoreId, command } = await orderMachine(tx, order, parts.secrets);
      return { changes: { vmRestoreId, commandId: command.id }, command };
    }
    case 'backup': {
      assertCan(parts.hub, device, 'backup.run', 'make backups');
      const { configId, paths } = spec;
      const backupJobId = await orderBackup(tx, { ...common, configId, paths }, parts.jobs);
      return backupJobId === undefined ? 'busy' : { changes: { backupJobId } };
    }
    case 'save': {
      assertCan(parts.hub, device, 'backup.vm-save', 'back up machines that were made of snapshots');
      const { configId, vmRestoreId } = spec;
      if (vmRestoreId === null) throw new WorkRefused('GONE', 'The record of the machine was removed.');
      const backupJobId = await orderMachineBackup(tx, { ...common, configId, vmRestoreId }, parts.jobs);
      return backupJobId === undefined ? 'busy' : { changes: { backupJobId } };
    }
    case 'check':
      return startCheck(tx, { ...start, device, spec }, parts);
    case 'discard':
      return startDiscard(tx, { ...start, device }, parts);
    default:
      return spec satisfies never;
  }
}

type FilesSpec = Extract<ActionSpec, { does: 'files' }>;

function snapshotOf({ snapshotId, madeBy }: FilesSpec, siblings: readonly RecoveryAction[]): string {
  const made = madeBy === null ? undefined : siblings.find(({ id }) => id === madeBy)?.result?.snapshotId;
  const id = made ?? snapshotId;
  if (id === null) throw noSnapshot();
  return id;
}

const noSnapshot = (machine: string | null = null) =>
  new WorkRefused(
    'NO_SNAPSHOT',
    machine === null
      ? 'There is no snapshot of this device on this server that could be restored.'
      : `There is no snapshot of the machine "${machine}" of this device on this server.`,
  );

function assertCan(hub: DeviceHub, device: DeviceNow, type: DurableCommandType, what: string): void {
  if (supportsCommand(hub, device, type)) return;
  throw new WorkRefused('CAPABILITY_MISSING', `The agent on ${device.name} cannot ${what}. Update it.`);
}

type CheckStart = Start & { device: DeviceNow; spec: Extract<ActionSpec, { does: 'check' }> };

async function startCheck(
  tx: Tx,
  { execution, siblings, device, spec: { check, isOfMachine, scriptSha256 } }: CheckStart,
  { hub, secrets }: StartParts,
): Promise<Started> {
  const restored = siblings.filter(({ kind }) => kind === 'restore');
  const forwards = restored.flatMap(({ result }) => result?.forwards ?? []);
  const base = { ttlSeconds: MAIN_TTL_SECONDS, createdBy: execution.createdBy };
  const noSecrets = { values: {}, sealer: secrets };
  if (check.type !== 'script') {
    assertCan(hub, device, 'recovery.check', 'check services');
    const { timeoutSeconds } = check;
    const command = await addServerCommand(tx, device, {
      ...base,
      type: 'recovery.check',
      payload: { check: { ...serviceOf(check), ...reached(check, isOfMachine, forwards) }, timeoutSeconds },
      timeoutSeconds: timeoutSeconds + SCRIPT_MARGIN_SECONDS,
      secrets: noSecrets,
    });
    return { changes: { commandId: command.id }, command };
  }
  assertCan(hub, device, 'script.run', 'run scripts');
  const wanted = { scriptId: check.scriptId, sha256: scriptSha256 };
  const script = await scriptToRun(tx, execution, wanted);
  if (script === undefined) throw new WorkRefused('SCRIPT_MISSING', 'The script does not exist any more.');
  const folder = restored.find(({ result }) => typeof result?.folder === 'string')?.result?.folder;
  const parameters: CommandPayload<'script.run'>['parameters'] = {
    EXECUTION_TYPE: execution.executionType,
    ...(typeof folder === 'string' ? { FOLDER: folder } : {}),
    ...Object.fromEntries(forwards.map(({ guestPort, hostPort }) => [`PORT_${guestPort}`, String(hostPort)])),
  };
  const { timeoutSeconds } = script;
  const command = await addServerCommand(tx, device, {
    ...base,
    type: 'script.run',
    payload: { ...script, parameters },
    timeoutSeconds,
    secrets: noSecrets,
  });
  return { changes: { commandId: command.id }, command };
}

type NetworkCheck = Exclude<CheckStart['spec']['check'], { type: 'script' }>;

function serviceOf(check: NetworkCheck): ServiceCheck {
  const host = check.host ?? LOOPBACK;
  if (check.type === 'tcp') return { type: 'tcp', host, port: check.port };
  const { port, path, secure, expectStatus, contains } = check;
  return { type: 'http', host, port, path, secure, ...omitUndefined({ expectStatus, contains }) };
}

const LOOPBACK = '127.0.0.1';

/** Where the device reaches what is checked. */
function reached(
  { host = LOOPBACK, port }: NetworkCheck,
  isOfMachine: boolean,
  forwards: readonly { hostPort: number; guestPort: number }[],
): { host: string; port: number } {
  if (!isOfMachine) return { host, port };
  const forward = forwards.find(({ guestPort }) => guestPort === port);
  if (forward === undefined) {
    throw new WorkRefused(
      'PORT_MISSING',
      `The host has not said where it reaches port ${port} of the machine.`,
    );
  }
  return { host: LOOPBACK, port: forward.hostPort };
}

async function startDiscard(
  tx: Tx,
  { execution, action, siblings, device }: Start & { device: DeviceNow },
  { secrets }: StartParts,
): Promise<Started> {
  const undone = siblings.find(({ id }) => id === action.undoes);
  const base = { device, ttlSeconds: CLEANUP_TTL_SECONDS, createdBy: execution.createdBy };
  if (undone?.restoreId != null) {
    const command = await orderFilesDiscard(tx, { ...base, restoreId: undone.restoreId }, secrets);
    return { changes: { commandId: command.id }, command };
  }
  if (undone?.vmRestoreId != null) {
    const command = await orderMachineDiscard(tx, { ...base, vmRestoreId: undone.vmRestoreId }, secrets);
    return { changes: { commandId: command.id }, command };
  }
  // It was refused before any device heard of it.
  return { changes: { state: 'skipped', finishedAt: clock.date() } };
}
