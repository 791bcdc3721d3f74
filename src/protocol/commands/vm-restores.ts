import { z } from 'zod';
import { reportedLine, reportedText, text } from '../primitives.ts';
import {
  BACKUP_TIMEOUT_SECONDS,
  BackupRepositoryAccess,
  BackupResult,
  Count,
  EngineId,
  ImageDetails,
} from './snapshots.ts';
import type { CommandTable } from './shape.ts';

/** Snapshots of whole machines that are restored as virtual machines on a device. */

const Port = z.number().int().min(1).max(65_535);

export const VM_FORWARDS_MAX = 16;

/** The network of a restored machine. Its original may still run, so it has no network access by default. */
export const VmNetwork = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({
    type: z.literal('user'),
    isIsolated: z
      .boolean()
      .default(true)
      .describe(
        'True: no network access. False: the machine reaches the networks and services of its host, with the address of the host.',
      ),
    forwards: z
      .array(Port)
      .max(VM_FORWARDS_MAX)
      .default([])
      .describe('Ports of the machine that are forwarded from the loopback address of its host.'),
  }),
  z.strictObject({
    type: z.literal('bridge'),
    bridge: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/, 'must be the name of a network interface')
      .describe('Connects the machine to this bridge of the host, with its own address.'),
  }),
]);
export type VmNetwork = z.infer<typeof VmNetwork>;

/** A host with more machines that run from snapshots lists only some of them. */
export const VM_BOOTS_MAX = 200;

const Forward = z.object({ hostPort: Port, guestPort: Port });
const Warnings = z.array(reportedText(500)).max(50);

/** The console of a machine on its host. */
const VmAccess = z.object({
  console: reportedText(4096)
    .nullable()
    .describe('A socket on the host that speaks VNC. Only its administrators can open it.'),
  forwards: z.array(Forward).max(VM_FORWARDS_MAX),
});

/**
 * `faulty`: its disk cannot be read or written, and it is paused. `unknown`: it runs and does not respond to its host.
 */
export const VmState = z.enum(['running', 'paused', 'faulty', 'stopped', 'unknown']);
export type VmState = z.infer<typeof VmState>;

/** The path becomes part of a path on a mount of the snapshot. */
const ImagePath = text(4096).refine(
  (path) => path.startsWith('/') && !path.split('/').some((name) => name === '.' || name === '..'),
  'must be a path from the root of the snapshot',
);

/** `vhdx`: for Hyper-V. The device creates no machine from it. */
export const VmDiskFormat = z.enum(['qcow2', 'raw', 'vhdx']);
export type VmDiskFormat = z.infer<typeof VmDiskFormat>;

const Wanted = z.object({
  restoreId: z.uuid(),
  repository: BackupRepositoryAccess,
  snapshotId: EngineId,
  image: ImageDetails,
  imagePath: ImagePath.optional().describe('The archive in the snapshot. Default: its only file.'),
  vmName: text(200),
  memoryMb: z.number().int().min(64).max(4_194_304),
  cpuCount: z.number().int().min(1).max(255),
  network: VmNetwork,
  targetPath: text(4096).optional().describe('A folder for its disks. Default: a folder of the agent.'),
});

const RestoreOnly = z.object({ restoreId: z.uuid() });

export const VM_RESTORE_COMMANDS = {
  'backup.vm-from-image': {
    lane: 'bulk',
    isOfServer: true,
    payload: Wanted.extend({
      diskSizeGb: z
        .number()
        .int()
        .min(1)
        .max(65_536)
        .optional()
        .describe('Grows the first disk to this size.'),
      grow: z
        .boolean()
        .optional()
        .describe('Grows the last partition of the first disk with it, and its ext file system.'),
      format: VmDiskFormat,
      start: z.boolean(),
      timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
    }),
    output: VmAccess.extend({
      state: VmState,
      folder: reportedText(4096),
      disks: z.array(z.object({ name: reportedLine(255), sizeBytes: Count, storedBytes: Count })).max(64),
      warnings: Warnings,
      seconds: z.number().nonnegative(),
    }),
  },
  'backup.vm-instant-boot': {
    lane: 'interactive',
    isOfServer: true,
    payload: Wanted,
    output: VmAccess.extend({
      state: VmState,
      folder: reportedText(4096),
      accelerator: z.enum(['kvm', 'tcg']).describe('`tcg`: its processors are emulated, which is slow.'),
      warnings: Warnings,
      seconds: z.object({
        mount: z.number().nonnegative(),
        overlay: z.number().nonnegative(),
        start: z.number().nonnegative(),
      }),
    }),
  },
  'backup.vm-migrate': {
    lane: 'work',
    isOfServer: true,
    payload: RestoreOnly.extend({ timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS) }),
    output: z.object({ copiedBytes: Count, seconds: z.number().nonnegative() }),
  },
  'backup.vm-save': {
    lane: 'bulk',
    isOfServer: true,
    payload: RestoreOnly.extend({
      jobId: z.uuid(),
      repository: BackupRepositoryAccess,
      host: text(255).describe('The name under which the snapshot is stored.'),
      uploadKiBps: z.number().int().positive().optional(),
      cpuPercent: z.number().int().min(1).max(100).optional(),
      timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
    }),
    output: BackupResult,
  },
  'backup.vm-discard': {
    lane: 'interactive',
    isOfServer: true,
    payload: RestoreOnly,
    output: z.object({ wasThere: z.boolean() }),
  },
  'backup.vm-boots': {
    payload: z.object({}),
    output: z.object({
      boots: z
        .array(
          z.object({
            restoreId: z.uuid(),
            state: VmState,
            isPermanent: z.boolean().describe('It no longer needs its snapshot.'),
            isBaseThere: z
              .boolean()
              .describe('Whether the snapshot can be read. Without it, the machine waits.'),
          }),
        )
        .max(VM_BOOTS_MAX),
      isCut: z
        .boolean()
        .optional()
        .describe('True if there are more. The state of those not listed is unknown.'),
    }),
  },
} as const satisfies CommandTable;
