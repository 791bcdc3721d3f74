import { z } from 'zod';
import { Id, nfcText, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { KindName } from './item-kind.ts';

const Bytes = z.preprocess(
  (value) => (value === null ? null : Number(value)),
  z.number().int().nonnegative().nullable(),
);

export const CloudItem = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    configId: z.uuid(),
    itemType: KindName,
    externalId: z.string().describe('The id at Microsoft.'),
    userEmail: z.string(),
    subjectOrName: z.string(),
    parentPath: z.string(),
    sizeBytes: Bytes.describe('The size of the newest content; null: it could not be fetched yet.'),
    itemDate: Timestamp.nullable(),
    isDeleted: z.boolean().describe('It was deleted at Microsoft. It can still be restored.'),
    deletedAt: Timestamp.nullable(),
    errorCode: z
      .string()
      .nullable()
      .describe('Why the newest content could not be fetched. The next run tries again.'),
    metadata: z.record(z.string(), z.unknown()),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'CloudBackupItem' });

const WORDS_MAX = 10;

export const ItemQuery = z.object({
  orgId: Id.optional(),
  configId: Id.optional(),
  userEmail: text(320).toLowerCase().optional(),
  itemType: KindName.optional(),
  search: nfcText(200)
    .transform((words) => words.trim().split(/\s+/))
    .pipe(z.array(z.string()).max(WORDS_MAX))
    .optional()
    .describe(
      `Words, in any case, each of which has to be a part of the subject or name, or of the name or address of the sender. At most ${WORDS_MAX}. The first 240 characters of a subject or name are searched, and the first 90 of a sender.`,
    ),
  isDeleted: z.stringbool().optional(),
  limit: PageQuery.shape.limit,
  after: Id.optional().describe('`nextAfter` of the previous page.'),
});
export type ItemQuery = z.infer<typeof ItemQuery>;

export const ItemPage = z.object({
  data: z.array(CloudItem),
  nextAfter: z.uuid().nullable().describe('For the next page; null: this is the last one.'),
});

export const ItemVersions = z.object({
  isCut: z.boolean().describe('True if there are more, and only the newest are listed.'),
  data: z
    .array(
      z.object({
        id: z.uuid(),
        sizeBytes: Bytes,
        capturedAt: Timestamp,
        supersededAt: Timestamp.nullable().describe('When a newer content replaced it.'),
        isNewest: z.boolean(),
      }),
    )
    .describe('The newest first, at most 1000.'),
});

export const ContentQuery = z.object({
  versionId: Id.optional().describe('An earlier content. Default: the newest one.'),
});

export const ItemExport = z.strictObject({ itemIds: z.array(Id).min(1).max(1000) });
export type ItemExport = z.infer<typeof ItemExport>;
