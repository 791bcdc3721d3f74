import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import {
  Machine,
  MachineErrorCode,
  MachineId,
  type MachineState,
  type MachineAction,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { firstCharacters, printable } from '../../core/plain-text.ts';
import type { PowerShell } from './hyperv-scripts.ts';
import * as scripts from './hyperv-scripts.ts';
import {
  listedParts,
  bytesBelow,
  type Exported,
  type ExportTarget,
  type Hypervisor,
  type WantedCheckpoint,
  type WantedMachine,
} from './hypervisor.ts';

const LOOK_MS = 60_000;
/** Long enough for many machines with many disks. */
const LIST_MS = 300_000;
/** A checkpoint waits for the programs in the machine, and a deleted one is merged. */
const CHANGE_MS = 3_600_000;
/** Commands have their own limit. */
const EXPORT_MS = 86_400_000;
const MEASURE_MS = 2000;
const FILES_MAX = 10_000;

/** Machines of Hyper-V, through the PowerShell module of Windows. */
export class HyperV implements Hypervisor {
  readonly kind = 'hyperv';
  readonly #run: PowerShell;

  constructor(run: PowerShell) {
    this.#run = run;
  }

  async list(signal: AbortSignal): Promise<Machine[]> {
    const found = await this.#run(scripts.LIST, {}, { signal, timeoutMs: LIST_MS });
    return found.flatMap((raw) => machineOf(raw) ?? []);
  }

  async find(machineId: string, signal: AbortSignal): Promise<Machine> {
    const raw = await this.#run(scripts.READ, { id: machineId }, { signal, timeoutMs: LOOK_MS });
    const machine = machineOf(raw);
    if (machine === undefined) {
      throw new AgentError(MachineErrorCode.failed, 'Hyper-V has described no machine.');
    }
    return machine;
  }

  async checkpoint(
    machineId: string,
    { action, checkpointName, checkpointId }: WantedCheckpoint,
    signal: AbortSignal,
  ): Promise<void> {
    const script = {
      create: scripts.CREATE_CHECKPOINT,
      delete: scripts.DELETE_CHECKPOINT,
      apply: scripts.APPLY_CHECKPOINT,
    }[action];
    const parameters = { id: machineId, name: checkpointName ?? null, checkpoint: checkpointId ?? null };
    await this.#run(script, parameters, { signal, timeoutMs: CHANGE_MS });
  }

  async setState(machineId: string, action: MachineAction, signal: AbortSignal): Promise<void> {
    await this.#run(scripts.SET_STATE, { id: machineId, action }, { signal, timeoutMs: CHANGE_MS });
  }

  async exportTo(
    machineId: string,
    { folder, consistency, onBytes }: ExportTarget,
    signal: AbortSignal,
  ): Promise<Exported> {
    const measured = new AbortController();
    const measuring = onBytes === undefined ? undefined : measure(folder, onBytes, measured.signal);
    try {
      const parameters = { id: machineId, folder, consistency };
      return await this.#run(scripts.EXPORT, parameters, { signal, timeoutMs: EXPORT_MS });
    } finally {
      measured.abort();
      await measuring;
    }
  }

  async importFrom(
    folder: string,
    { vmName, generateNewId, targetFolder }: WantedMachine,
    signal: AbortSignal,
  ): Promise<{ machineId: string; vmName: string }> {
    const parameters = {
      configuration: await configurationIn(folder),
      target: targetFolder,
      disks: path.join(targetFolder, 'Virtual Hard Disks'),
      newId: generateNewId,
      name: vmName ?? null,
    };
    const { id, name } = await this.#run(scripts.IMPORT, parameters, { signal, timeoutMs: EXPORT_MS });
    const machineId = MachineId.safeParse(id.toLowerCase());
    if (!machineId.success) {
      throw new AgentError(MachineErrorCode.failed, 'Hyper-V has imported a machine and not named its id.');
    }
    return { machineId: machineId.data, vmName: printable(name, 256) };
  }

  /** Exports of Hyper-V leave nothing behind in the machines. */
  recover(): void {}

  async defaultFolder(signal: AbortSignal): Promise<string> {
    const { folder } = await this.#run(scripts.DEFAULT_FOLDER, {}, { signal, timeoutMs: LOOK_MS });
    return folder;
  }
}

const STATES: Readonly<Record<string, MachineState>> = {
  Running: 'running',
  Off: 'off',
  Paused: 'paused',
  Saved: 'saved',
  Starting: 'changing',
  Stopping: 'changing',
  Saving: 'changing',
  Pausing: 'changing',
  Resuming: 'changing',
  Reset: 'changing',
};

const EMPTY_ID = '00000000-0000-0000-0000-000000000000';

/** `undefined` if there is no usable id. */
function machineOf(raw: scripts.RawMachine): Machine | undefined {
  const { generation = null, memory = null, processors = null } = raw;
  const parent = (id: string | null | undefined) =>
    id === null || id === undefined || id === '' || id === EMPTY_ID ? null : id.toLowerCase();
  const listed = listedParts(raw.disks, raw.checkpoints);
  const machine = Machine.safeParse({
    ...listed,
    id: raw.id.toLowerCase(),
    name: firstCharacters(raw.name, 256),
    state: STATES[raw.state] ?? 'unknown',
    bootMode: generation === null ? null : generation >= 2 ? 'uefi' : 'bios',
    generation,
    memoryBytes: memory,
    processors: processors === 0 ? null : processors,
    disks: listed.disks.map(({ path: file, size = null, passthrough }) => ({
      path: firstCharacters(file, 1024),
      sizeBytes: size,
      isPassthrough: passthrough,
    })),
    tracksChanges: null,
    checkpoints: listed.checkpoints.map(({ id, name, parent: parentId, created = null }) => ({
      id: id.toLowerCase(),
      name: firstCharacters(name, 256),
      parentId: parent(parentId),
      createdAt: created === null ? null : firstCharacters(created, 40),
    })),
  });
  return machine.data;
}

/** Reports the size of the exported files, because Hyper-V reports no numbers. */
async function measure(folder: string, onBytes: (bytes: number) => void, ends: AbortSignal): Promise<void> {
  for (;;) {
    await clock.sleep(MEASURE_MS, { signal: ends }).catch(() => undefined);
    if (ends.aborted) return;
    onBytes(await bytesBelow(folder));
  }
}

/** The configuration of the machine. Those of its checkpoints are in other folders. */
async function configurationIn(folder: string): Promise<string> {
  const found: string[] = [];
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries.slice(0, FILES_MAX)) {
    const isOfMachine = path.basename(entry.parentPath).toLowerCase() === 'virtual machines';
    if (entry.isFile() && isOfMachine && /\.(vmcx|xml)$/i.test(entry.name)) {
      found.push(path.join(entry.parentPath, entry.name));
    }
  }
  const [configuration] = found;
  if (configuration === undefined || found.length > 1) {
    throw new AgentError(
      MachineErrorCode.incompatible,
      `The snapshot has ${found.length} configurations of Hyper-V in the folder of the machine; exactly one is expected.`,
    );
  }
  return configuration;
}
