import { newId } from '../../../../platform/ids.ts';
import type { VmNetwork } from '../../../../protocol/index.ts';
import type { FoundSnapshot } from '../../../backup/index.ts';
import type { Mark } from '../../plans/plan-facts.ts';
import { machineFault } from '../../plans/source-snapshot.ts';
import type { PinnedScript } from '../../plans/plan.model.ts';
import type { RecoveryCheck, RecoveryDevice, RecoveryRestore } from '../../plans/target.schema.ts';
import type { ActionSpec } from '../action-spec.ts';
import type { ActionKind } from '../execution.schema.ts';
import { below, inSnapshot, onDevice } from './places.ts';

/** What an execution does for each device, decided once when it begins. The three types differ here. */

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
  /** Of a failover of files. */
  places: { source: string; target: string }[];
}

type OsType = 'windows' | 'macos' | 'linux';
type FilesRestore = Extract<RecoveryRestore, { type: 'files' }>;
type MachineRestore = Exclude<RecoveryRestore, { type: 'files' }>;

export interface Given {
  entry: RecoveryDevice;
  deviceName: string;
  /** Undefined: the device is not there any more. */
  sourceOs: OsType | undefined;
  targetOs: OsType | undefined;
  snapshot: FoundSnapshot | undefined;
  /** Of its group. */
  scripts: readonly PinnedScript[];
}

/** Everything goes to isolated places, and is taken down in the end. */
export function composeRehearsal({ entry, deviceName, snapshot, scripts }: Given): ComposedStep {
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

/** The targets take over. */
export function composeFailover({ entry, deviceName, snapshot, scripts, ...systems }: Given): ComposedStep {
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
  { sourceOs = 'linux', targetOs = 'linux', snapshot }: Pick<Given, 'sourceOs' | 'targetOs' | 'snapshot'>,
): ComposedStep {
  const target = targetOf(entry);
  const snapshotId = snapshot?.id ?? null;
  const { selectedPaths, targetPath, overwrite } = restore;
  const paths = (selectedPaths ?? snapshot?.paths ?? []).map(inSnapshot);
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

/** A machine is backed up where it runs, and brought back by a person. */
export function composeFailback(
  { deviceId, targetDeviceId, definition, places, configId, vmRestoreId }: Mark,
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
    name: name.slice(0, 500),
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
} as const;

const nameFor = ({
  restore,
  deviceName,
  snapshot,
}: Pick<Given, 'deviceName' | 'snapshot'> & { restore: MachineRestore }): string =>
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
      vmName: vmName.slice(0, 200),
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

/** The ports of a machine that its checks reach by way of its host. */
const portsOf = (checks: readonly RecoveryCheck[], isReached: (host: string | undefined) => boolean) => [
  ...new Set(
    checks.flatMap((check) => (check.type !== 'script' && isReached(check.host) ? [check.port] : [])),
  ),
];

/** It reaches nothing at all; only its host reaches the ports that are checked. */
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
      name: nameOf(check, script).slice(0, 500),
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
