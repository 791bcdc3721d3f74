import { z } from 'zod';
import { atMost, reportedLine, reportedText, text } from '../primitives.ts';
import {
  BACKUP_TIMEOUT_SECONDS,
  BackupRepositoryAccess,
  BackupResult,
  Count,
  EngineId,
  NamedPaths,
  BootMode,
  Consistency,
  HypervisorKind,
  MachineId,
  MACHINES_PER_SNAPSHOT,
  MachinesDetails,
} from './snapshots.ts';
import type { CommandTable } from './shape.ts';

/** Guests of a hypervisor on a device. */

/** A capability: this hypervisor is installed on the agent's machine. */
export const hypervisorCapability = (kind: HypervisorKind): string => `hypervisor.${kind}`;

export const MachineName = text(256).refine(
  (name) => !/[\p{Cc}\u2028\u2029]/u.test(name),
  'must be one line without control characters',
);

export const MACHINES_MAX = 1000;
export const MACHINE_DISKS_MAX = 64;
export const CHECKPOINTS_MAX = 200;

export const MachineState = z.enum(['running', 'off', 'paused', 'saved', 'changing', 'unknown']);
export type MachineState = z.infer<typeof MachineState>;

export const MachineCheckpoint = z.object({
  id: MachineId,
  name: reportedLine(256),
  parentId: MachineId.nullable(),
  createdAt: reportedLine(40).nullable(),
});
export type MachineCheckpoint = z.infer<typeof MachineCheckpoint>;

export const Machine = z.object({
  id: MachineId,
  name: reportedLine(256),
  state: MachineState,
  bootMode: BootMode.nullable(),
  generation: z.number().int().min(1).max(99).nullable().describe('For Hyper-V only.'),
  memoryBytes: Count.nullable(),
  processors: z.number().int().min(1).max(100_000).nullable(),
  disks: z
    .array(
      z.object({
        path: reportedLine(1024).describe('The path that the hypervisor uses.'),
        sizeBytes: Count.nullable().describe('The space used on the disk of the host.'),
        isPassthrough: z.boolean().describe('A disk of the host itself, which exports do not contain.'),
      }),
    )
    .max(MACHINE_DISKS_MAX),
  tracksChanges: z.boolean().nullable(),
  checkpoints: z.array(MachineCheckpoint).max(CHECKPOINTS_MAX),
  isCut: z.boolean().optional().describe('True if it has more disks or checkpoints than are listed.'),
});
export type Machine = z.infer<typeof Machine>;

export const CheckpointAction = z.enum(['create', 'delete', 'apply']);
export type CheckpointAction = z.infer<typeof CheckpointAction>;
export const MachineAction = z.enum(['start', 'stop', 'force_stop', 'pause', 'resume', 'save']);
export type MachineAction = z.infer<typeof MachineAction>;

/** Error codes of commands for guests, besides the codes of the engine. */
export const MachineErrorCode = {
  hypervisorMissing: 'HYPERVISOR_MISSING',
  machineMissing: 'MACHINE_MISSING',
  /** More than one machine has this name. */
  machineAmbiguous: 'MACHINE_AMBIGUOUS',
  checkpointMissing: 'CHECKPOINT_MISSING',
  /** The state of the machine does not allow it. */
  stateConflict: 'MACHINE_STATE',
  passthroughDisk: 'PASSTHROUGH_DISK',
  notConsistent: 'NOT_CONSISTENT',
  incompatible: 'MACHINE_INCOMPATIBLE',
  noRoom: 'TARGET_FULL',
  failed: 'HYPERVISOR_FAILED',
} as const;

/** The file of a snapshot that names the machines beside it. */
export const MACHINE_MANIFEST = 'muster-machines.json';

/**
 * The list of exported machines in their snapshot. It is untrusted input: anyone with the key of the repository can
 * write it.
 */
export const MachineManifest = z.object({
  version: z.literal(1),
  hypervisor: HypervisorKind,
  machines: z
    .array(
      MachinesDetails.shape.machines.element.extend({
        folder: MachineId.describe('The folder beside this file that contains its files.'),
      }),
    )
    .min(1)
    .max(MACHINES_PER_SNAPSHOT),
});
export type MachineManifest = z.infer<typeof MachineManifest>;
export type ExportedMachine = MachineManifest['machines'][number];

const ofMachine = {
  hypervisor: HypervisorKind,
  machineId: MachineId,
  timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
};
const afterwards = z.object({
  machine: Machine.nullable().describe('The current state; null if it could not be read again.'),
});

export const MACHINE_COMMANDS = {
  'backup.vm-list': {
    payload: z.object({ hypervisor: HypervisorKind }),
    output: z.object({
      machines: atMost(MACHINES_MAX, Machine),
      truncated: z.boolean().describe(`True if there are more than ${MACHINES_MAX}.`),
    }),
  },
  'backup.vm-checkpoint': {
    lane: 'work',
    isOfServer: true,
    payload: z.object({
      ...ofMachine,
      action: CheckpointAction,
      checkpointName: MachineName.optional().describe('Name of a new checkpoint.'),
      checkpointId: MachineId.optional().describe('Id of the checkpoint to delete or to apply.'),
    }),
    output: afterwards,
  },
  'backup.vm-state': {
    lane: 'work',
    isOfServer: true,
    payload: z.object({ ...ofMachine, state: MachineAction }),
    output: afterwards,
  },
  'backup.vm-export': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      ...ofMachine,
      exportPath: text(4096).describe('An existing folder of the device. The files stay there.'),
      consistency: z.enum(['application', 'crash']),
    }),
    output: z.object({
      folder: reportedText(4096, 0),
      consistency: Consistency,
      bytes: Count,
      seconds: z.number().nonnegative(),
    }),
  },
  'backup.machine': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      jobId: z.uuid(),
      repository: BackupRepositoryAccess,
      host: text(255).describe('The name under which the snapshot is stored.'),
      hypervisor: HypervisorKind,
      machines: z
        .union([z.literal('all'), z.array(MachineName).min(1).max(MACHINES_PER_SNAPSHOT)])
        .describe('Names or ids.'),
      consistency: z.enum(['application', 'crash']),
      uploadKiBps: z.number().int().positive().optional(),
      cpuPercent: z.number().int().min(1).max(100).optional(),
      timeoutSeconds: ofMachine.timeoutSeconds,
    }),
    output: BackupResult,
  },
  'backup.vm-restore': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      restoreId: z.uuid(),
      repository: BackupRepositoryAccess,
      snapshotId: EngineId,
      hypervisor: HypervisorKind,
      machine: MachineName.optional().describe(
        'The name or id of one in the snapshot; may be left out if there is only one.',
      ),
      vmName: MachineName.optional().describe('Default: its original name.'),
      generateNewId: z.boolean(),
      targetPath: text(4096).optional().describe('Default: a folder of the hypervisor.'),
      timeoutSeconds: ofMachine.timeoutSeconds,
    }),
    output: z.object({
      status: z.enum(['completed', 'partial']),
      targetPath: reportedText(4096, 0),
      filesRestored: Count,
      bytesRestored: Count,
      filesSkipped: Count,
      seconds: z.number().nonnegative(),
      failed: NamedPaths,
      machineId: MachineId,
      vmName: reportedLine(256),
    }),
  },
} as const satisfies CommandTable;
