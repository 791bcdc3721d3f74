import { z } from 'zod';
import { Id, Timestamp, text } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { CloudJobStatus } from './config.schema.ts';
import { KindName } from './item-kind.ts';

/** A `bigint`, which the driver returns as text. */
export const Count = z.preprocess((value) => Number(value), z.number().int().nonnegative());
const Failure = z.object({ code: z.string(), message: z.string() }).nullable();
const Type = z.enum(['backup', 'restore']);

export const CloudJob = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    configId: z.uuid(),
    type: Type,
    trigger: z.enum(['manual', 'schedule']),
    status: CloudJobStatus.describe(
      '`partial`: something was not had; the outcomes say what. The next run tries it again.',
    ),
    phase: z.string().nullable(),
    target: z
      .object({ connectionId: z.uuid(), user: z.string().nullable(), folder: z.string() })
      .nullable()
      .describe('The destination of a restore. Without a user, each item is restored to its own user.'),
    itemsProcessed: Count,
    itemsNew: Count,
    itemsUpdated: Count,
    itemsDeleted: Count,
    itemsFailed: Count,
    bytesTransferred: Count,
    error: Failure,
    cancelRequestedAt: Timestamp.nullable(),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    startedAt: Timestamp.nullable(),
    completedAt: Timestamp.nullable(),
  })
  .meta({ id: 'CloudBackupJob' });

export const CloudJobDetails = CloudJob.extend({
  outcomesTotal: Count.describe('The total number of outcomes, including those that are not listed.'),
  outcomes: z
    .array(
      z.object({
        userEmail: z.string(),
        kind: KindName,
        status: z
          .enum(['pending', 'running', 'completed', 'partial', 'skipped', 'failed'])
          .describe('`skipped`: the user has no such mailbox or drive.'),
        itemsNew: Count,
        itemsUpdated: Count,
        itemsDeleted: Count,
        itemsFailed: Count,
        bytesTransferred: Count,
        error: Failure,
      }),
    )
    .describe('The outcome of a backup for each kind of each user; at most 4000, failures first.'),
  items: z
    .array(
      z.object({
        itemId: z.uuid(),
        itemType: KindName,
        subjectOrName: z.string(),
        userEmail: z.string().describe('The user whose item it is.'),
        status: z
          .enum(['pending', 'restored', 'present', 'failed'])
          .describe('`present`: an earlier restore has already restored this content there.'),
        error: Failure,
      }),
    )
    .describe('The outcome of a restore for each item.'),
}).meta({ id: 'CloudBackupJobDetails' });

export const CloudJobQuery = PageQuery.extend({
  orgId: Id.optional(),
  configId: Id.optional(),
  type: Type.optional(),
  status: CloudJobStatus.optional(),
});
export type CloudJobQuery = z.infer<typeof CloudJobQuery>;

const fields = {
  itemIds: z.array(Id).min(1).max(1000).describe('Items of one configuration.'),
  versionId: Id.optional().describe('An earlier content of the one item. Default: the newest contents.'),
  targetConnectionId: Id.optional().describe(
    'Another connection of the organization. Default: that of the configuration.',
  ),
  targetUser: z.email().max(320).toLowerCase().optional().describe('Default: the user of each item.'),
  targetFolder: text(100)
    .regex(/^[^/\\<>:"|?*%#]+$/, 'must be the name of a folder, without / and \\')
    .optional()
    .describe(
      'The folder, calendar or folder of contacts that takes the items; it is created if it is missing. Default: Restored by Muster. Nothing that exists is overwritten.',
    ),
};

export const NewCloudRestore = z
  .strictObject(fields)
  .refine(({ itemIds, versionId }) => versionId === undefined || itemIds.length === 1, {
    path: ['versionId'],
    message: 'must not be given with several items',
  });
export type NewCloudRestore = z.infer<typeof NewCloudRestore>;
