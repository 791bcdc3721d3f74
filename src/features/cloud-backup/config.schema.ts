import { z } from 'zod';
import { Id, nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { BackupSchedule, scheduleTimes } from '../backup/index.ts';
import { KindName } from './item-kind.ts';

/** Summary of a run or a restore. Configurations contain that of their last run. */
export const CloudJobStatus = z.enum(['pending', 'running', 'completed', 'partial', 'failed', 'cancelled']);
export type CloudJobStatus = z.infer<typeof CloudJobStatus>;

const Schedule = BackupSchedule.refine(scheduleTimes.isEverDue, {
  path: ['time'],
  message: 'must name a minute that lies within the window in some hour',
});

export const CloudRetention = z
  .strictObject({
    keepDays: z
      .number()
      .int()
      .min(1)
      .max(3650)
      .optional()
      .describe('Days after which items that were deleted, and contents that were replaced, are removed.'),
    keepVersions: z
      .number()
      .int()
      .min(1)
      .max(1000)
      .optional()
      .describe('Newest contents of an item that are kept.'),
  })
  .describe('Without limits, everything is kept. The newest content of an existing item is always kept.');
export type CloudRetention = z.infer<typeof CloudRetention>;

const Users = z
  .array(z.email().max(320).toLowerCase())
  .max(1000)
  .transform((list) => [...new Set(list)]);

const changeable = {
  name: nfcText(200),
  backupScope: z
    .array(KindName)
    .min(1)
    .max(4)
    .transform((list) => [...new Set(list)]),
  allUsers: z.boolean().optional().describe('Every user of the directory, including later ones.'),
  targetUsers: Users.optional().describe('Addresses of users.'),
  schedule: Schedule.nullable()
    .optional()
    .describe('Without one, runs begin only manually. Default time zone: UTC.'),
  retention: CloudRetention.optional(),
  enabled: z.boolean().optional().describe('Default true.'),
};

export const NewCloudConfig = z
  .strictObject({
    connectionId: Id,
    encryptionKeyId: Id.describe('A backup encryption key of the organization. It cannot be changed.'),
    ...changeable,
  })
  .refine(({ allUsers, targetUsers }) => (allUsers === true) !== (targetUsers ?? []).length > 0, {
    path: ['targetUsers'],
    message: 'must name users, unless allUsers is true',
  });
export type NewCloudConfig = z.infer<typeof NewCloudConfig>;

export const CloudConfigPatch = z.strictObject(changeable).partial();
export type CloudConfigPatch = z.infer<typeof CloudConfigPatch>;

export const CloudConfigQuery = PageQuery.extend({ orgId: Id.optional(), connectionId: Id.optional() });
export type CloudConfigQuery = z.infer<typeof CloudConfigQuery>;

export const CloudConfig = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    connectionId: z.uuid(),
    name: z.string(),
    encryptionKeyId: z.uuid(),
    backupScope: z.array(KindName),
    allUsers: z.boolean(),
    targetUsers: z.array(z.string()),
    schedule: BackupSchedule.nullable(),
    retention: CloudRetention,
    enabled: z.boolean(),
    nextRunAt: Timestamp.nullable(),
    lastRun: z
      .object({
        jobId: z.uuid(),
        status: CloudJobStatus,
        createdAt: Timestamp,
        completedAt: Timestamp.nullable(),
      })
      .nullable()
      .describe('The newest recorded run.'),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'CloudBackupConfig' });

export const CloudConfigUserQuery = z.object({
  search: nfcText(320).optional().describe('Part of the address, in any case.'),
});
export type CloudConfigUserQuery = z.infer<typeof CloudConfigUserQuery>;

export const CloudConfigUsers = z.object({
  data: z
    .array(z.object({ userEmail: z.string() }))
    .describe('By address. At most 200: use `search` for the others.'),
});
