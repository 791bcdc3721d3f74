import { z } from 'zod';
import { Id, Timestamp } from '../../../platform/http/fields.ts';
import { PageQuery } from '../../../platform/http/pagination.ts';
import { CloudJobStatus } from '../job-status.ts';
import { KindName } from '../kinds/kind.ts';

/** Of a `bigint`, which the driver answers as text. */
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
      .describe('Of a restore: where to. Without a user, each item comes back to its own.'),
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
  outcomesTotal: Count.describe('How many outcomes there are, also beyond those that are listed.'),
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
    .describe('Of a backup: what became of each kind of each user; at most 4000, those with failures first.'),
  items: z
    .array(
      z.object({
        itemId: z.uuid(),
        itemType: KindName,
        subjectOrName: z.string(),
        userEmail: z.string().describe('Whose item it is.'),
        status: z
          .enum(['pending', 'restored', 'present', 'failed'])
          .describe('`present`: an earlier restore has brought this content to the place already.'),
        error: Failure,
      }),
    )
    .describe('Of a restore: what became of each item.'),
}).meta({ id: 'CloudBackupJobDetails' });

export const CloudJobQuery = PageQuery.extend({
  orgId: Id.optional(),
  configId: Id.optional(),
  type: Type.optional(),
  status: CloudJobStatus.optional(),
});
export type CloudJobQuery = z.infer<typeof CloudJobQuery>;
