import { z } from 'zod';
import { Id, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { RecoveryMachine, RecoveryProgress, RecoveryResult, TargetConfig } from '../../protocol/index.ts';

export { RecoveryMachine, RecoveryProgress, RecoveryResult, TargetConfig };

const RestoreType = z.enum(['full', 'selective', 'bare_metal']);

export const NewRecoveryToken = z
  .strictObject({
    snapshotId: Id.describe('An image of whole disks.'),
    expiresInHours: z.number().int().min(1).max(168).default(24),
    restoreType: RestoreType.default('bare_metal').describe(
      '`selective`: the disks of `targetConfig`. The others: every disk that it does not leave out.',
    ),
    targetConfig: TargetConfig.optional(),
  })
  .refine(
    ({ restoreType, targetConfig }) => restoreType !== 'selective' || targetConfig?.disks !== undefined,
    {
      path: ['targetConfig', 'disks'],
      message: 'must name the disks of a selective recovery',
    },
  );
export type NewRecoveryToken = z.infer<typeof NewRecoveryToken>;

export const TOKEN_STATUSES = ['active', 'authenticated', 'used', 'expired', 'revoked'] as const;

export const RecoveryTokenQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional(),
  snapshotId: Id.optional(),
});
export type RecoveryTokenQuery = z.infer<typeof RecoveryTokenQuery>;

export const ShownRecoveryToken = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid().describe('The device that was backed up.'),
    snapshotId: z.uuid(),
    restoreType: RestoreType,
    targetConfig: TargetConfig,
    status: z
      .enum(TOKEN_STATUSES)
      .describe(
        '`authenticated`: a machine is being recovered. `used`: that has ended. Only an active token starts a recovery.',
      ),
    sessionStatus: z.enum(['pending', 'running', 'completed', 'partial', 'failed']),
    expiresAt: Timestamp,
    authenticatedAt: Timestamp.nullable(),
    completedAt: Timestamp.nullable(),
    authentications: z
      .number()
      .int()
      .describe('How often the recovery was started, also again after interruptions.'),
    machine: RecoveryMachine.nullable().describe('The machine that is recovered, as it describes itself.'),
    progress: RecoveryProgress.nullable(),
    result: RecoveryResult.nullable(),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
  })
  .meta({ id: 'RecoveryToken' });

export const CreatedRecoveryToken = ShownRecoveryToken.extend({
  token: z.string().describe('Shown this once. It opens every byte of the snapshot.'),
  command: z.string().describe('For the rescue system. It asks for the token on its standard input.'),
}).meta({ id: 'CreatedRecoveryToken' });
