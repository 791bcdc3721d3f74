import { z } from 'zod';
import { reportedLine, reportedText, text } from '../../primitives.ts';
import {
  BACKUP_TIMEOUT_SECONDS,
  BackupRepositoryAccess,
  BackupResult,
  Count,
  EngineId,
} from '../backups/backup-parts.ts';
import type { CommandTable } from '../shape.ts';
import { ImageDetails } from '../backups/snapshot-details.ts';

/** Snapshots of whole machines that become virtual machines on a device. */

const Port = z.number().int().min(1).max(65_535);

export const VM_FORWARDS_MAX = 16;

/** What a restored machine reaches. Its original may still run, so it reaches nothing unless that is asked for. */
export const VmNetwork = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({
    type: z.literal('user'),
    isIsolated: z
      .boolean()
      .default(true)
      .describe('False: it reaches the networks and the services of its host, with the address of the host.'),
    forwards: z
      .array(Port)
      .max(VM_FORWARDS_MAX)
      .default([])
      .describe('Ports of the machine that are reached at ports of the loopback address of its host.'),
  }),
  z.strictObject({
    type: z.literal('bridge'),
    bridge: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/, 'must be the name of a network interface')
      .describe('The network of this bridge of the host, as a machine of its own.'),
  }),
]);
export type VmNetwork = z.infer<typeof VmNetwork>;

const Forward = z.object({ hostPort: Port, guestPort: Port });
const Warnings = z.array(reportedText(500)).max(50);

/** Where people reach a machine on its host. */
const VmAccess = z.object({
  console: reportedText(4096)
    .nullable()
    .describe('A socket on the host that speaks VNC. Only its administrators can open it.'),
  forwards: z.array(Forward).max(VM_FORWARDS_MAX),
});

/** `faulty`: its disk cannot be read or written, and it waits. `unknown`: it runs and does not answer its host. */
export const VmState = z.enum(['running', 'paused', 'faulty', 'stopped', 'unknown']);
export type VmState = z.infer<typeof VmState>;

/** It becomes part of a path on a mount of the snapshot. */
const ImagePath = text(4096).refine(
  (path) => path.startsWith('/') && !path.split('/').some((name) => name === '.' || name === '..'),
  'must be a path from the root of the snapshot',
);

/** `vhdx`: for Hyper-V. No machine is made of it on the device. */
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
  targetPath: text(4096).optional().describe('A folder for its disks. Default: one of the agent.'),
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
        .describe('The first disk grows to this size.'),
      grow: z
        .boolean()
        .optional()
        .describe('The last partition of the first disk grows with it, and an ext file system in that.'),
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
            isPermanent: z.boolean().describe('It needs its snapshot no more.'),
            isBaseThere: z
              .boolean()
              .describe('Whether the snapshot can be read. Without it, the machine waits.'),
          }),
        )
        .max(200),
    }),
  },
} as const satisfies CommandTable;
