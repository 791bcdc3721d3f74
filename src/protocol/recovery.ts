import { z } from 'zod';
import { BootMode, EngineId, IMAGE_DISKS_MAX, ImageDetails } from './commands/index.ts';
import { reportedLine, reportedText, text } from './primitives.ts';

/**
 * Messages between a machine without an identity and its server during a recovery (docs/decisions/machine-images.md).
 */

const Bytes = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const Secret = z.string().min(1).max(200);

/** The description of the machine on which the rescue system runs. */
export const RecoveryMachine = z.object({
  hostname: reportedLine(255),
  agentVersion: reportedLine(100),
  bootMode: BootMode,
});
export type RecoveryMachine = z.infer<typeof RecoveryMachine>;

export const RecoveryStart = z.strictObject({
  token: Secret,
  session: Secret.optional().describe('The session of an earlier start with this token, to be resumed.'),
  machine: RecoveryMachine,
});
export type RecoveryStart = z.infer<typeof RecoveryStart>;

/** The disks to restore, and the options. */
export const TargetConfig = z.strictObject({
  disks: z
    .array(text(100))
    .min(1)
    .max(IMAGE_DISKS_MAX)
    .optional()
    .describe('The disks of the image. Default: all.'),
  grow: z.boolean().optional().describe('The last partition reaches the end of a larger disk. Default: no.'),
});
export type TargetConfig = z.infer<typeof TargetConfig>;

/** The access to one snapshot. It contains secrets, so it is returned once and stored nowhere. */
export const RecoveryAccess = z.object({
  recoveryId: z.uuid(),
  session: Secret.optional().describe(
    'The secret with which this recovery is resumed; returned only at its first start.',
  ),
  sessionExpiresAt: z.iso.datetime(),
  snapshotId: EngineId,
  machineName: reportedText(255, 0),
  details: ImageDetails.nullable(),
  targetConfig: TargetConfig,
  repository: z.object({
    path: z.string().startsWith('/').max(500),
    user: text(100),
    secret: Secret,
    password: z.string().min(1).max(1000),
    keyHint: text(64).optional(),
  }),
});
export type RecoveryAccess = z.infer<typeof RecoveryAccess>;

export const RecoveryProgress = z.object({
  phase: reportedLine(50),
  disk: reportedLine(100).optional(),
  done: Bytes,
  total: Bytes,
  rate: Bytes.optional(),
  etaSeconds: Bytes.optional(),
});
export type RecoveryProgress = z.infer<typeof RecoveryProgress>;

export const DISK_CHECKS_MAX = 300;

export const RecoveryResult = z.object({
  status: z.enum(['completed', 'partial', 'failed']),
  bytesRestored: Bytes,
  validated: z.boolean().describe('True if everything was read back and every check has succeeded.'),
  disks: z
    .array(
      z.object({
        disk: reportedLine(100),
        target: reportedLine(500),
        sha256: EngineId,
        continuedFrom: Bytes,
        checks: z
          .array(
            z.object({ name: reportedLine(100), ok: z.boolean(), message: reportedLine(500).optional() }),
          )
          .max(DISK_CHECKS_MAX),
        checkCount: z.number().int().optional().describe('The total number, if more exist than are listed.'),
      }),
    )
    .max(IMAGE_DISKS_MAX),
  warnings: z.array(reportedLine(500)).max(50),
  error: z.object({ code: reportedLine(64), message: reportedLine(2000) }).nullable(),
});
export type RecoveryResult = z.infer<typeof RecoveryResult>;

const session = { token: Secret, session: Secret };
export const RecoveryReport = z.strictObject({ ...session, progress: RecoveryProgress });
export type RecoveryReport = z.infer<typeof RecoveryReport>;

export const RecoveryEnd = z.strictObject({ ...session, result: RecoveryResult });
export type RecoveryEnd = z.infer<typeof RecoveryEnd>;
