import { z } from 'zod';
import { EngineError } from '../engine-error.ts';

/** restic's JSON documents, from 0.14 on: fields of later versions are optional. */

const Count = z.number().nonnegative().default(0);
const ObjectId = z.string().regex(/^[0-9a-f]{64}$/);
export const SnapshotId = ObjectId;

export const EngineSnapshot = z.object({
  id: ObjectId,
  /** By the clock of the machine that made the snapshot. */
  time: z.iso.datetime({ offset: true }),
  tree: ObjectId.optional(),
  parent: ObjectId.optional(),
  /** In a copy, the id of the snapshot that was copied. */
  original: ObjectId.optional(),
  paths: z.array(z.string()),
  hostname: z.string().default(''),
  username: z.string().default(''),
  tags: z
    .array(z.string())
    .nullish()
    .transform((tags) => tags ?? []),
});
export type EngineSnapshot = z.infer<typeof EngineSnapshot>;
export const EngineSnapshots = z
  .array(EngineSnapshot)
  .nullable()
  .transform((all) => all ?? []);

export const EngineStats = z
  .object({ total_size: Count, total_file_count: Count, total_blob_count: Count })
  .transform((stats) => ({
    bytes: stats.total_size,
    files: stats.total_file_count,
    blobs: stats.total_blob_count,
  }));

export type EngineStats = z.output<typeof EngineStats>;

export const EngineConfig = z.object({ version: z.number().int(), id: ObjectId });

export const EngineLock = z.object({
  time: z.string(),
  exclusive: z.boolean().default(false),
  hostname: z.string().default(''),
  username: z.string().default(''),
  pid: z.number().int().default(0),
});

export const EngineEntry = z
  .object({
    name: z.string(),
    type: z.string(),
    path: z.string(),
    size: z.number().nonnegative().optional(),
    mode: z.number().int().nonnegative().optional(),
    mtime: z.string().optional(),
  })
  .and(z.union([z.object({ struct_type: z.literal('node') }), z.object({ message_type: z.literal('node') })]))
  .transform(({ name, type, path, size, mode, mtime }) => ({ name, type, path, size, mode, mtime }));
export type EngineEntry = z.output<typeof EngineEntry>;

export const DiffChange = z
  .object({ message_type: z.literal('change'), path: z.string(), modifier: z.string() })
  .transform(({ path, modifier }) => ({ path, modifier }));
export type DiffChange = z.output<typeof DiffChange>;

const DiffSide = z.object({ files: Count, dirs: Count, others: Count, bytes: Count });
export const DiffStatistics = z
  .object({ message_type: z.literal('statistics'), changed_files: Count, added: DiffSide, removed: DiffSide })
  .transform(({ changed_files, added, removed }) => ({ changedFiles: changed_files, added, removed }));
export type DiffStatistics = z.output<typeof DiffStatistics>;

export const CheckSummary = z.object({ message_type: z.literal('summary'), num_errors: Count });

const RestoreCount = z.object({
  total_files: Count,
  files_restored: Count,
  files_skipped: Count,
  total_bytes: Count,
  bytes_restored: Count,
  bytes_skipped: Count,
});
export const RestoreMessage = z.discriminatedUnion('message_type', [
  RestoreCount.extend({ message_type: z.literal('status') }),
  RestoreCount.extend({ message_type: z.literal('summary') }),
]);

export function parseDocument<S extends z.ZodType>(schema: S, output: string): z.output<S> {
  let value: unknown;
  try {
    value = JSON.parse(output);
  } catch {
    throw unexpected('not JSON');
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw unexpected(z.prettifyError(parsed.error).slice(0, 500));
  return parsed.data;
}

const unexpected = (what: string) =>
  new EngineError('ENGINE_FAILED', {
    message: 'restic has answered in a form that this version of Muster does not know.',
    detail: what,
  });
