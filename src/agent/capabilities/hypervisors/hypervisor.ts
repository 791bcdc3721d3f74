import { lstat, readdir } from 'node:fs/promises';
import path from 'node:path';
import {
  type CheckpointAction,
  type Consistency,
  type HypervisorKind,
  type Machine,
  type MachineAction,
  CHECKPOINTS_MAX,
  MACHINE_DISKS_MAX,
} from '../../../protocol/index.ts';

/** The guests of one hypervisor on this machine. Every failure is an `AgentError` with a code of `MachineErrorCode`. */
export interface Hypervisor {
  readonly kind: HypervisorKind;

  /** All machines, in the order of their names. */
  list(signal: AbortSignal): Promise<Machine[]>;

  find(machineId: string, signal: AbortSignal): Promise<Machine>;

  checkpoint(machineId: string, wanted: WantedCheckpoint, signal: AbortSignal): Promise<void>;

  setState(machineId: string, action: MachineAction, signal: AbortSignal): Promise<void>;

  /**
   * Writes the whole machine into an existing empty folder. A running machine keeps running. If it is aborted or
   * fails, it leaves nothing behind except files in that folder; if the agent is killed, `recover` cleans up.
   */
  exportTo(machineId: string, target: ExportTarget, signal: AbortSignal): Promise<Exported>;

  /** Creates a machine from an export. It moves or copies the files and does not start the machine. */
  importFrom(
    folder: string,
    wanted: WantedMachine,
    signal: AbortSignal,
  ): Promise<{ machineId: string; vmName: string }>;

  /** Starts to undo in the background what a killed agent has left in the machines. */
  recover(): void;

  /** The default folder of the hypervisor for new machines. */
  defaultFolder(signal: AbortSignal): Promise<string>;
}

export interface WantedCheckpoint {
  action: CheckpointAction;
  checkpointName?: string | undefined;
  checkpointId?: string | undefined;
}

export interface ExportTarget {
  folder: string;
  consistency: 'application' | 'crash';
  /** Called with the number of bytes written so far, as often as it is convenient. */
  onBytes?: (bytes: number) => void;
}

export interface Exported {
  /** The consistency that was reached, which may be less than requested. */
  consistency: Consistency;
}

export interface WantedMachine {
  /** Absent: the original name. */
  vmName?: string | undefined;
  /** False: the machine keeps its original id. The import fails if a machine has it. */
  generateNewId: boolean;
  /** An existing empty folder for the files of the machine. */
  targetFolder: string;
}

const FILES_MAX = 100_000;

/** The bytes of all files below a folder. Files that disappear during the count are ignored. */
export async function bytesBelow(folder: string): Promise<number> {
  let bytes = 0;
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  for (const entry of entries.slice(0, FILES_MAX)) {
    if (!entry.isFile()) continue;
    const found = await lstat(path.join(entry.parentPath, entry.name)).catch(() => undefined);
    bytes += found?.size ?? 0;
  }
  return bytes;
}

/** As many disks and checkpoints of a machine as fit into a message. `isCut` means that it has more. */
export function listedParts<D, C>(
  disks: readonly D[],
  checkpoints: readonly C[],
): { disks: D[]; checkpoints: C[]; isCut?: true } {
  const isCut = disks.length > MACHINE_DISKS_MAX || checkpoints.length > CHECKPOINTS_MAX;
  return {
    disks: disks.slice(0, MACHINE_DISKS_MAX),
    checkpoints: checkpoints.slice(0, CHECKPOINTS_MAX),
    ...(isCut ? { isCut } : {}),
  };
}
