import { newId } from '../../platform/ids.ts';
import { type VmNetwork, shortened } from '../../protocol/index.ts';
import type { FoundSnapshot } from '../backup/index.ts';
import {
  type ActionSpec,
  type RecoveryCheck,
  type RecoveryDevice,
  type RecoveryRestore,
  machineOf,
} from './plan.schema.ts';
import type { FailedOverSource } from './disaster-recovery.queries.ts';
import type { ActionKind } from './execution.schema.ts';
import type { PinnedScript } from './disaster-recovery.model.ts';

/** The work of an execution for each device, decided once when it begins. The three types differ here. */

export interface ComposedAction {
  id: string;
  kind: ActionKind;
  phase: 'main' | 'cleanup';
  name: string;
  deviceId: string;
  spec: ActionSpec;
  undoes: string | null;
}

export interface ComposedStep {
  actions: ComposedAction[];
  /** For a failover of files. */
  places: { source: string; target: string }[];
}

type OsType = 'windows' | 'macos' | 'linux';
type FilesRestore = Extract<RecoveryRestore, { type: 'files' }>;
type MachineRestore = Exclude<RecoveryRestore, { type: 'files' }>;

export interface StepInput {
  entry: RecoveryDevice;
  deviceName: string;
  /** Undefined: the device no longer exists. */
  sourceOs: OsType | undefined;
  targetOs: OsType | undefined;
  snapshot: FoundSnapshot | undefined;
  /** Settings of its group. */
  scripts: readonly PinnedScript[];
}

/** A rehearsal: everything is restored to isolated places, and removed at the end. */
export function composeRehearsal({ entry, deviceName, snapshot, scripts }: StepInput): ComposedStep {
  const { restore, checks } = entry;
  const target = targetOf(entry);
  const restored =
    restore.type === 'files'
      ? filesAction(target, {
          name: 'Restore the files to a folder of their own',
          snapshotId: snapshot?.id ?? null,
          selectedPaths: restore.selectedPaths ?? null,
        })
      : machineAction(target, {
          restore,
          vmName: `${nameFor({ restore, deviceName, snapshot })} (rehearsal)`,
          snapshot,
          network: isolated(checks),
        });
  return {
    actions: [restored, ...checksOf(entry, { isRehearsal: true, scripts }), discardOf(restored)],
    places: [],
  };
}

/** A failover: the targets take over. */
export function composeFailover({
  entry,
  deviceName,
  snapshot,
  scripts,
  ...systems
}: StepInput): ComposedStep {
  const { restore } = entry;
  const checks = checksOf(entry, { isRehearsal: false, scripts });
  if (restore.type === 'files') {
    const { actions, places } = filesTo(entry, restore, { ...systems, snapshot });
    return { actions: [...actions, ...checks], places };
  }
  const restored = machineAction(targetOf(entry), {
    restore,
    vmName: nameFor({ restore, deviceName, snapshot }),
    snapshot,
    network: reachable(restore.network, entry.checks),
  });
  return { actions: [restored, ...checks, discardOf(restored)], places: [] };
}

function filesTo(
  entry: RecoveryDevice,
  restore: FilesRestore,
  { sourceOs = 'linux', targetOs = 'linux', snapshot }: Pick<StepInput, 'sourceOs' | 'targetOs' | 'snapshot'>,
): ComposedStep {
  const target = targetOf(entry);
  const snapshotId = snapshot?.id ?? null;
  const { selectedPaths, targetPath, overwrite } = restore;
  const paths = (selectedPaths ?? snapshot?.paths ?? []).map(inSnapshot);
  if (selectedPaths === undefined && snapshot?.pathsAreCut === true) {
    return allBelow(targetPath, { target, sourceOs, snapshotId, overwrite });
  }
  if (targetPath !== undefined || paths.length === 0) {
    const name = targetPath === undefined ? 'Restore the files' : `Restore the files below ${targetPath}`;
    const actions = [
      filesAction(target, {
        name,
        snapshotId,
        overwrite,
        selectedPaths: selectedPaths ?? null,
        targetPath: targetPath ?? null,
      }),
    ];
    const places =
      targetPath === undefined
        ? []
        : paths.map((path) => ({ source: onDevice(path, sourceOs), target: below(targetPath, path) }));
    return { actions, places };
  }
  return {
    actions: paths.map((path) =>
      filesAction(target, {
        name: `Restore ${onDevice(path, targetOs)}`,
        snapshotId,
        overwrite,
        selectedPaths: [path],
        fromPath: path,
        targetPath: onDevice(path, targetOs),
        isOptional: selectedPaths === undefined,
      }),
    ),
    places: paths.map((path) => ({ source: onDevice(path, sourceOs), target: onDevice(path, targetOs) })),
  };
}

/**
 * For a snapshot with more paths than the server lists. They can be restored together below a folder; restoring each
 * to its own place would be incomplete.
 */
function allBelow(
  targetPath: string | undefined,
  {
    target,
    sourceOs,
    snapshotId,
    overwrite,
  }: Pick<FilesSpec, 'snapshotId' | 'overwrite'> & { target: string; sourceOs: OsType },
): ComposedStep {
  const whole = { snapshotId, overwrite, selectedPaths: null };
  if (targetPath === undefined) {
    const refusal = {
      code: 'PATHS_NOT_KNOWN',
      message:
        'The snapshot has more paths than the server lists, so they cannot all be restored to their places. Give the step a targetPath, or name its selectedPaths.',
    };
    return { actions: [filesAction(target, { ...whole, name: 'Restore the files', refusal })], places: [] };
  }
  const name = `Restore the files below ${targetPath}`;
  return {
    actions: [filesAction(target, { ...whole, name, targetPath })],
    places: [{ source: onDevice('/', sourceOs), target: withoutSlash(targetPath) }],
  };
}

/** A machine is backed up where it runs, and restored manually. */
export function composeFailback(
  { deviceId, targetDeviceId, definition, places, configId, vmRestoreId }: FailedOverSource,
  machines: 'save' | 'back' | null,
  scripts: readonly PinnedScript[],
): ComposedStep {
  const { restore } = definition;
  if (restore.type !== 'files' && machines === 'save') {
    const save: ComposedAction = {
      id: newId(),
      kind: 'backup',
      phase: 'main',
      name: 'Shut the machine down and back it up',
      deviceId: targetDeviceId,
      spec: { does: 'save', configId, vmRestoreId },
      undoes: null,
    };
    return { actions: [save], places: [] };
  }
  const moved = places.filter(({ source, target }) => deviceId !== targetDeviceId || source !== target);
  if (restore.type !== 'files' || moved.length === 0) return { actions: [], places: [] };
  const backup: ComposedAction = {
    id: newId(),
    kind: 'backup',
    phase: 'main',
    name: 'Back up the data of the target',
    deviceId: targetDeviceId,
    spec: { does: 'backup', configId, paths: moved.map(({ target }) => target) },
    undoes: null,
  };
  const restores = moved.map(({ source, target }) =>
    filesAction(deviceId, {
      name: `Restore ${source} to the source`,
      snapshotId: null,
      madeBy: backup.id,
      overwrite: restore.overwrite,
      selectedPaths: [inSnapshot(target)],
      fromPath: inSnapshot(target),
      targetPath: source,
      isOptional: restore.selectedPaths === undefined,
    }),
  );
  const onSource = { ...definition, targetDeviceId: deviceId };
  return {
    actions: [backup, ...restores, ...checksOf(onSource, { isRehearsal: false, scripts })],
    places: [],
  };
}

const targetOf = ({ deviceId, targetDeviceId }: RecoveryDevice) => targetDeviceId ?? deviceId;

type FilesSpec = Extract<ActionSpec, { does: 'files' }>;

function filesAction(
  deviceId: string,
  { name, ...spec }: { name: string } & Partial<FilesSpec> & Pick<FilesSpec, 'snapshotId' | 'selectedPaths'>,
): ComposedAction {
  return {
    id: newId(),
    kind: 'restore',
    phase: 'main',
    name: shortened(name, 500),
    deviceId,
    spec: { ...PLAIN, ...spec },
    undoes: null,
  };
}

const PLAIN = {
  does: 'files',
  madeBy: null,
  targetPath: null,
  fromPath: null,
  overwrite: 'never',
  isOptional: false,
  refusal: null,
} as const;

const nameFor = ({
  restore,
  deviceName,
  snapshot,
}: Pick<StepInput, 'deviceName' | 'snapshot'> & { restore: MachineRestore }): string =>
  restore.vmName ?? (snapshot?.machines?.[0]?.name || restore.machine || deviceName);

interface MachineWork {
  restore: MachineRestore;
  vmName: string;
  snapshot: FoundSnapshot | undefined;
  network: VmNetwork;
}

function machineAction(
  deviceId: string,
  { restore, vmName, snapshot, network }: MachineWork,
): ComposedAction {
  const { type, machine = null, memoryMb, cpuCount } = restore;
  const guests = snapshot?.machines ?? null;
  const fault = machineFault(guests, machine);
  return {
    id: newId(),
    kind: 'restore',
    phase: 'main',
    name: type === 'vm' ? 'Restore as a virtual machine' : 'Start a virtual machine from the snapshot',
    deviceId,
    spec: {
      does: 'machine',
      kind: type === 'vm' ? 'as_vm' : 'instant_boot',
      snapshotId: snapshot?.id ?? null,
      machine,
      machineId: guests?.[0]?.id ?? null,
      guest: null,
      refusal:
        fault === undefined
          ? null
          : { code: fault.code, message: `The field machine of this step ${fault.rule}.` },
      vmName: shortened(vmName, 200),
      memoryMb: memoryMb ?? null,
      cpuCount: cpuCount ?? null,
      network,
    },
    undoes: null,
  };
}

const discardOf = (restored: ComposedAction): ComposedAction => ({
  id: newId(),
  kind: 'discard',
  phase: 'cleanup',
  name: restored.spec.does === 'files' ? 'Remove the restored files' : 'Discard the virtual machine',
  deviceId: restored.deviceId,
  spec: { does: 'discard' },
  undoes: restored.id,
});

/** The ports of a machine that its checks reach through its host. */
const portsOf = (checks: readonly RecoveryCheck[], isReached: (host: string | undefined) => boolean) => [
  ...new Set(
    checks.flatMap((check) => (check.type !== 'script' && isReached(check.host) ? [check.port] : [])),
  ),
];

/** The network of an isolated machine: it has no access to others, and only its host reaches the checked ports. */
function isolated(checks: readonly RecoveryCheck[]): VmNetwork {
  const forwards = portsOf(checks, () => true);
  return forwards.length === 0 ? { type: 'none' } : { type: 'user', isIsolated: true, forwards };
}

function reachable(network: VmNetwork | undefined, checks: readonly RecoveryCheck[]): VmNetwork {
  const wanted = network ?? { type: 'user', isIsolated: false, forwards: [] };
  if (wanted.type !== 'user') return wanted;
  const forwards = [...new Set([...wanted.forwards, ...portsOf(checks, (host) => host === undefined)])];
  return { ...wanted, forwards };
}

function checksOf(
  entry: RecoveryDevice,
  { isRehearsal, scripts }: { isRehearsal: boolean; scripts: readonly PinnedScript[] },
): ComposedAction[] {
  const isMachine = entry.restore.type !== 'files';
  return entry.checks.map((check) => {
    const script =
      check.type === 'script' ? scripts.find(({ scriptId }) => scriptId === check.scriptId) : undefined;
    return {
      id: newId(),
      kind: 'check',
      phase: 'main',
      name: shortened(nameOf(check, script), 500),
      deviceId: targetOf(entry),
      spec: {
        does: 'check',
        check,
        isOfMachine: isMachine && (isRehearsal || check.type === 'script' || check.host === undefined),
        scriptSha256: script?.sha256 ?? null,
      },
      undoes: null,
    };
  });
}

function nameOf(check: RecoveryCheck, script: PinnedScript | undefined): string {
  if (check.type === 'script') return script === undefined ? 'Run a script' : `Run the script ${script.name}`;
  const where = check.host === undefined ? `port ${check.port}` : `${check.host}:${check.port}`;
  return check.type === 'tcp' ? `Connect to ${where}` : `Fetch ${check.path} from ${where}`;
}

/** Maps paths of a device to paths in its snapshots. Snapshots write `C:\Data` as `/C/Data`. */

const isWindows = (path: string) => /^[A-Za-z]:[\\/]/.test(path);

function inSnapshot(path: string): string {
  if (!isWindows(path)) return withoutSlash(path);
  const rest = path.slice(2).replaceAll('\\', '/');
  return withoutSlash(`/${path.slice(0, 1).toUpperCase()}${rest}`);
}

function onDevice(path: string, osType: 'windows' | 'macos' | 'linux'): string {
  if (osType !== 'windows' || isWindows(path)) return path;
  const [, drive = 'C', rest = ''] = /^\/([A-Za-z])(\/.*)?$/.exec(path) ?? [];
  return `${drive}:${(rest === '' ? '/' : rest).replaceAll('/', '\\')}`;
}

/** The target of a snapshot path below a folder of the device. */
function below(folder: string, path: string): string {
  if (isWindows(folder)) return folder.replace(/[\\/]$/, '') + inSnapshot(path).replaceAll('/', '\\');
  return withoutSlash(folder) + inSnapshot(path);
}

const withoutSlash = (path: string) => (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path);

/** Selects the snapshot that a device of a plan is restored from, and the machine in it. */

export const wantedSnapshot = (entry: RecoveryDevice) => ({
  deviceId: entry.deviceId,
  kind: entry.restore.type === 'files' ? ('files' as const) : ('machine' as const),
  configId: entry.restore.configId ?? null,
  machine: machineOf(entry),
});

interface MachineFault {
  code: 'MACHINE_REQUIRED' | 'MACHINE_AMBIGUOUS';
  /** The rule that the field `machine` breaks. */
  rule: string;
}

/** Why the guest in a snapshot is ambiguous. @param guests  the candidates */
export function machineFault(
  guests: FoundSnapshot['machines'],
  wanted: string | null,
): MachineFault | undefined {
  if (guests === null || guests.length <= 1) return undefined;
  if (wanted !== null) {
    return { code: 'MACHINE_AMBIGUOUS', rule: 'is the name of several guests: give the id of one' };
  }
  const names = guests.map(({ name }) => name).join(', ');
  const rule = shortened(`is required: the newest snapshot has several guests: ${names}`, 500);
  return { code: 'MACHINE_REQUIRED', rule };
}
