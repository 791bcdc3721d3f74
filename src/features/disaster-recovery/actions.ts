import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import {
  type CommandPayload,
  type DurableCommandType,
  type ServiceCheck,
  COMMANDS,
  shortened,
} from '../../protocol/index.ts';
import { WorkRefused, type WorkEnd, recoveryActions } from '../backup/index.ts';
import { type AddedCommand, addServerCommand, type EndedCommand, endsOfCommands } from '../commands/index.ts';
import { discardMachine, startMachineRestore, endsOfMachineRestores } from '../machine-recovery/index.ts';
import { supportsCommand } from '../devices/index.ts';
import type { WorkEngine } from '../work/index.ts';
import { scriptToRun } from './plan.service.ts';
import { ActionSpec } from './plan.schema.ts';
import type { RecoveryAction, RecoveryExecution } from './disaster-recovery.model.ts';
import type { DeviceNow } from './disaster-recovery.queries.ts';
import type { ActionNow } from './decide.ts';

/** Assigns one action to its device, within a transaction: exactly once, or not at all. */

export interface StartParts {
  hub: DeviceHub;
  jobs: Jobs;
  work: WorkEngine;
  secrets: Encryptor;
}

interface Start {
  execution: RecoveryExecution;
  action: RecoveryAction;
  /** All actions of its step. */
  siblings: readonly RecoveryAction[];
  device: DeviceNow | undefined;
}

type Started =
  | { changes: Partial<RecoveryAction>; command?: AddedCommand }
  /** To be retried later. */
  | 'busy'
  /** The store's description of the guest is missing. `readGuestOf` reads it outside of the transaction. */
  | 'unread';

/** How long an absent device has to return for the work. */
const MAIN_TTL_SECONDS = 900;
/** Cleanup work waits longer for its device. */
const CLEANUP_TTL_SECONDS = 7 * 86_400;
const SCRIPT_MARGIN_SECONDS = 60;

/** Throws `WorkRefused` if the action cannot be assigned. */
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
      if (spec.refusal !== null) throw new WorkRefused(spec.refusal.code, spec.refusal.message);
      const snapshotId = snapshotOf(spec, start.siblings);
      const { selectedPaths, targetPath, fromPath, overwrite } = spec;
      const order = { ...common, snapshotId, selectedPaths, targetPath, fromPath, overwrite };
      const { restoreId, command } = await recoveryActions.startFileRestore(tx, order, parts.secrets);
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
      const { vmRestoreId, command } = await startMachineRestore(tx, order, parts.secrets);
      return { changes: { vmRestoreId, commandId: command.id }, command };
    }
    case 'backup': {
      assertCan(parts.hub, device, 'backup.run', 'make backups');
      const { configId, paths } = spec;
      const backupJobId = await recoveryActions.startBackup(tx, { ...common, configId, paths }, parts.work);
      return backupJobId === undefined ? 'busy' : { changes: { backupJobId } };
    }
    case 'save': {
      assertCan(parts.hub, device, 'backup.vm-save', 'back up machines that were made of snapshots');
      const { configId, vmRestoreId } = spec;
      if (vmRestoreId === null) throw new WorkRefused('GONE', 'The record of the machine was removed.');
      const backupJobId = await recoveryActions.startMachineBackup(
        tx,
        { ...common, configId, vmRestoreId },
        parts.work,
      );
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
  const noSecrets = { values: {}, encryptor: secrets };
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

/** The address under which the device reaches the checked service. */
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
    const command = await recoveryActions.discardRestoredFiles(
      tx,
      { ...base, restoreId: undone.restoreId },
      secrets,
    );
    return { changes: { commandId: command.id }, command };
  }
  if (undone?.vmRestoreId != null) {
    const command = await discardMachine(tx, { ...base, vmRestoreId: undone.vmRestoreId }, secrets);
    return { changes: { commandId: command.id }, command };
  }
  // It was refused before it was sent to a device.
  return { changes: { state: 'skipped', finishedAt: clock.date() } };
}

/** The state of an action after its work has ended. */
type ActionEnd = Pick<
  RecoveryAction,
  'state' | 'message' | 'result' | 'errorCode' | 'errorMessage' | 'finishedAt'
>;

/** By the id of the action, without those that still run. @param all  actions of the execution */
export async function endedActions(tx: Tx, all: readonly RecoveryAction[]): Promise<Map<string, ActionEnd>> {
  const running = all.filter(({ state }) => state === 'running');
  if (running.length === 0) return new Map();
  const restores = running.filter(({ kind }) => kind === 'restore' || kind === 'backup');
  const ofFiles = restores.flatMap(({ restoreId }) => restoreId ?? []);
  const ofMachines = restores.flatMap(({ vmRestoreId }) => vmRestoreId ?? []);
  const ofBackups = restores.flatMap(({ backupJobId }) => backupJobId ?? []);
  const works = new Map([
    ...(await recoveryActions.endsOfFileRestores(tx, ofFiles)),
    ...(await endsOfMachineRestores(tx, ofMachines)),
    ...(await recoveryActions.endsOfBackups(tx, ofBackups)),
  ]);
  const asked = running.filter(({ kind }) => kind === 'check' || kind === 'discard');
  const commands = await endsOfCommands(
    tx,
    asked.flatMap(({ commandId }) => commandId ?? []),
  );
  const ends = new Map<string, ActionEnd>();
  for (const action of restores) {
    const end = works.get(action.restoreId ?? action.vmRestoreId ?? action.backupJobId ?? '');
    if (end === undefined) continue;
    ends.set(action.id, isAbsent(action, end) ? endOfAbsent(action, all) : endOfWork(end));
  }
  for (const action of asked) {
    const end = commands.get(action.commandId ?? '');
    if (end === undefined) continue;
    const ended = endOfCommand(end);
    // Even if a user cancelled the command, the resources that it should have removed still exist.
    const isLeft = action.kind === 'discard' && ended.state === 'cancelled';
    ends.set(action.id, isLeft ? { ...ended, state: 'failed' } : ended);
  }
  return ends;
}

/** A path of the configuration that did not exist on the device when it was backed up. */
const isAbsent = ({ spec }: RecoveryAction, end: WorkEnd): boolean =>
  end.outcome === 'failed' && end.code === 'PATH_MISSING' && spec.does === 'files' && spec.isOptional;

/** Harmless, unless nothing at all is restored. */
function endOfAbsent({ id, stepId }: RecoveryAction, all: readonly RecoveryAction[]): ActionEnd {
  const others = all.filter((each) => each.stepId === stepId && each.kind === 'restore' && each.id !== id);
  const message = 'The snapshot does not contain it.';
  const isAll = others.every(({ result }) => result?.isMissing === true);
  return isAll ? badEnd('failed', 'PATH_MISSING', message) : goodEnd(message, { isMissing: true });
}

function endOfWork(end: WorkEnd): ActionEnd {
  if (end.outcome !== 'succeeded') return badEnd(end.outcome, end.code, end.message);
  const { message, folder, forwards, snapshotId } = end;
  const result = {
    ...(folder === undefined ? {} : { folder }),
    ...(forwards === undefined ? {} : { forwards }),
    ...(snapshotId === undefined ? {} : { snapshotId }),
  };
  return goodEnd(message, result);
}

function endOfCommand(end: EndedCommand | 'gone'): ActionEnd {
  if (end === 'gone') return badEnd('failed', 'GONE', 'The record of this work was removed.');
  const { status, error, type, output } = end;
  if (status !== 'succeeded') {
    const code = error?.code ?? SILENT[status]?.[0] ?? status.toUpperCase();
    const message = error?.message ?? SILENT[status]?.[1] ?? 'It failed.';
    return badEnd(status === 'cancelled' ? 'cancelled' : 'failed', code, message);
  }
  if (type === 'recovery.check') {
    const found = COMMANDS['recovery.check'].output.safeParse(output).data;
    if (found?.passed === true) return goodEnd(found.message);
    return badEnd('failed', 'CHECK_FAILED', found?.message ?? 'The result of the device could not be read.');
  }
  if (type === 'script.run') {
    const exitCode = COMMANDS['script.run'].output.safeParse(output).data?.exitCode;
    const message =
      exitCode == null ? 'It was ended by a signal.' : `It ended with the exit code ${exitCode}.`;
    return exitCode === 0 ? goodEnd(message) : badEnd('failed', 'CHECK_FAILED', message);
  }
  return goodEnd('It was taken down.');
}

const SILENT: Readonly<Record<string, readonly [code: string, message: string]>> = {
  expired: ['DEVICE_OFFLINE', 'The device did not connect in time.'],
  timed_out: ['TIMED_OUT', 'The device has not reported the result in time.'],
  cancelled: ['CANCELLED', 'It was cancelled.'],
};

const goodEnd = (message: string, result: RecoveryAction['result'] = null): ActionEnd => ({
  state: 'succeeded',
  message,
  result,
  errorCode: null,
  errorMessage: null,
  finishedAt: clock.date(),
});

export const badEnd = (state: 'failed' | 'cancelled', code: string, message: string): ActionEnd => ({
  state,
  message: null,
  result: null,
  errorCode: code.slice(0, 64),
  errorMessage: shortened(message, 2000),
  finishedAt: clock.date(),
});

/** A device that is absent for this long is not waited for. */
const AWAY_MS = 5 * 60_000;
/** Presence is written in batches, so a device that has just returned may still look absent. */
const SETTLED_MS = 3000;
/** A device that was asked to stop or clean up must react sooner. */
const AWAY_WHEN_ASKED_MS = 10_000;
const SILENT_WHEN_ASKED_MS = 60_000;

/** The action as input of the decision. */
export function asNow(action: RecoveryAction, device: DeviceNow | undefined, now: Date): ActionNow {
  const { id, kind, phase, state, undoes, cancelRequestedAt } = action;
  const isCancelRequested = cancelRequestedAt !== null;
  const isLost = state === 'running' && isLostAt(action, device, now);
  return { id, kind, phase, state, undoes, isCancelRequested, isLost };
}

function isLostAt(
  { phase, startedAt, cancelRequestedAt }: RecoveryAction,
  device: DeviceNow | undefined,
  now: Date,
): boolean {
  if (device === undefined) return true;
  const awayMs = device.awaySince === null ? 0 : now.getTime() - device.awaySince.getTime();
  const askedAt = phase === 'cleanup' ? startedAt : cancelRequestedAt;
  const sinceMs = now.getTime() - ((askedAt ?? startedAt)?.getTime() ?? 0);
  if (askedAt !== null && sinceMs >= SILENT_WHEN_ASKED_MS) return true;
  return sinceMs >= SETTLED_MS && awayMs >= (askedAt === null ? AWAY_MS : AWAY_WHEN_ASKED_MS);
}
