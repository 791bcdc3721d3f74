import type {
  CheckpointAction,
  Consistency,
  HypervisorKind,
  Machine,
  MachineAction,
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
   * Writes everything that the machine consists of into the folder, which exists and is empty. A machine that runs goes on
   * running. Aborted or failed, it leaves nothing behind but files in that folder; killed, what `recover` finds.
   */
  exportTo(machineId: string, target: ExportTarget, signal: AbortSignal): Promise<Exported>;

  /** Makes a machine of what `exportTo` has written. It moves or copies the files; it does not start the machine. */
  importFrom(
    folder: string,
    wanted: WantedMachine,
    signal: AbortSignal,
  ): Promise<{ machineId: string; vmName: string }>;

  /** Undoes in the background what an agent that was killed has left in the machines. */
  recover(): void;

  /** Where the hypervisor keeps the files of new machines. */
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
  /** What was written so far, as often as it is convenient. */
  onBytes?: (bytes: number) => void;
}

export interface Exported {
  /** What was reached: the guest may not be able to do what was wanted. */
  consistency: Consistency;
}

export interface WantedMachine {
  /** Its own where it is left out. */
  vmName?: string | undefined;
  /** False: it gets the id that it had, which fails where a machine has it. */
  generateNewId: boolean;
  /** An existing empty folder for its files. */
  targetFolder: string;
}
