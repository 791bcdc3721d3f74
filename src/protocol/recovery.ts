import { z } from 'zod';
import { BootMode, EngineId, ImageDetails } from './commands/index.ts';
import { reportedLine, reportedText, text } from './primitives.ts';

/** What a machine without an identity and its server say to each other while it is recovered (docs/decisions/bare-metal.md). */

const Bytes = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const Secret = z.string().min(1).max(200);

/** What the rescue system says of the machine that it runs on. */
export const RecoveryMachine = z.object({
  hostname: reportedLine(255),
  agentVersion: reportedLine(100),
  bootMode: BootMode,
});
export type RecoveryMachine = z.infer<typeof RecoveryMachine>;

export const RecoveryStart = z.strictObject({
  token: Secret,
  session: Secret.optional().describe('Of an earlier start with this token, which this one goes on with.'),
  machine: RecoveryMachine,
});
export type RecoveryStart = z.infer<typeof RecoveryStart>;

/** Which disks, and what becomes of them. */
export const TargetConfig = z.strictObject({
  disks: z.array(text(100)).min(1).max(64).optional().describe('The disks of the image. Default: all.'),
  grow: z.boolean().optional().describe('The last partition reaches the end of a larger disk. Default: no.'),
});
export type TargetConfig = z.infer<typeof TargetConfig>;

/** What opens the one snapshot. It holds secrets, so it is answered once and kept nowhere. */
export const RecoveryAccess = z.object({
  recoveryId: z.uuid(),
  session: Secret.optional().describe('What this recovery goes on with; answered at its first start only.'),
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

export const RecoveryResult = z.object({
  status: z.enum(['completed', 'partial', 'failed']),
  bytesRestored: Bytes,
  validated: z.boolean().describe('Everything was read back, and every check has succeeded.'),
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
          .max(300),
      }),
    )
    .max(64),
  warnings: z.array(reportedLine(500)).max(50),
  error: z.object({ code: reportedLine(64), message: reportedLine(2000) }).nullable(),
});
export type RecoveryResult = z.infer<typeof RecoveryResult>;

const session = { token: Secret, session: Secret };
export const RecoveryReport = z.strictObject({ ...session, progress: RecoveryProgress });
export type RecoveryReport = z.infer<typeof RecoveryReport>;

export const RecoveryEnd = z.strictObject({ ...session, result: RecoveryResult });
export type RecoveryEnd = z.infer<typeof RecoveryEnd>;
