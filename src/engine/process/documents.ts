import { z } from 'zod';
import { escapeLiteral, pathBytes, printedPath, shortened } from '../../protocol/index.ts';
import { EngineError } from '../engine-error.ts';

/** restic's JSON documents, from 0.14 on: fields of later versions are optional. */

const Count = z.number().nonnegative().default(0);
const ObjectId = z.string().regex(/^[0-9a-f]{64}$/);
export const SnapshotId = ObjectId;

export const EngineSnapshot = z.object({
  id: ObjectId,
  /** In the time of the backed-up machine. */
  time: z.iso.datetime({ offset: true }),
  tree: ObjectId.optional(),
  parent: ObjectId.optional(),
  /** For a copy: the id of the original snapshot. */
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
  if (!parsed.success) throw unexpected(shortened(z.prettifyError(parsed.error), 500));
  return parsed.data;
}

const unexpected = (what: string) =>
  new EngineError('ENGINE_FAILED', {
    message: 'restic has answered in a form that this version of Muster does not know.',
    detail: what,
  });

/** The names in a folder of a snapshot, as `pathText` writes them. */
export type ReadNames = (folder: string) => Promise<readonly string[]>;

interface Folder {
  printed: string;
  exact: string;
  /** How often each inexact name was printed. */
  seen: Map<string, number>;
  /** Names that are printed alike, in the order of their bytes. */
  alike: Map<string, string[]> | undefined;
}

const UNKNOWN = '\ufffd';

/**
 * Resolves the entries that `restic ls` prints. It prints U+FFFD for each byte that is not UTF-8, so names of several
 * files can look the same; but it prints the names of each folder in the order of their bytes, each followed by its
 * content. Only folders with such names are read a second time.
 */
export class ExactNames {
  readonly #read: ReadNames | undefined;
  /** The folders that may contain the next entry. */
  readonly #open: Folder[] = [];

  constructor(read: ReadNames | undefined) {
    this.#read = read;
  }

  /** The entry with its name and path as `pathText` writes them. Throws REPOSITORY_DAMAGED if no entry has this name. */
  async of(entry: EngineEntry): Promise<EngineEntry> {
    const at = entry.path.lastIndexOf('/');
    const folder = this.#folder(entry.path.slice(0, at));
    const printed = entry.path.slice(at + 1);
    const name = printed.includes(UNKNOWN) ? await this.#exact(folder, printed) : escapeLiteral(printed);
    const path = `${folder.exact}/${name}`;
    if (entry.type === 'dir') this.#open.push(opened(entry.path, path));
    return { ...entry, name, path };
  }

  #folder(printed: string): Folder {
    while (this.#open.length > 0 && this.#open.at(-1)?.printed !== printed) this.#open.pop();
    const known = this.#open.at(-1);
    if (known !== undefined) return known;
    if (printed.includes(UNKNOWN)) throw disagreement(printed);
    const folder = opened(printed, escapeLiteral(printed));
    this.#open.push(folder);
    return folder;
  }

  async #exact(folder: Folder, printed: string): Promise<string> {
    if (this.#read === undefined) return escapeLiteral(printed);
    folder.alike ??= alikeIn(await this.#read(folder.exact));
    const at = folder.seen.get(printed) ?? 0;
    folder.seen.set(printed, at + 1);
    const name = folder.alike.get(printed)?.[at];
    if (name === undefined) throw disagreement(`${folder.printed}/${printed}`);
    return name;
  }
}

const opened = (printed: string, exact: string): Folder => ({
  printed,
  exact,
  seen: new Map(),
  alike: undefined,
});

function alikeIn(names: readonly string[]): Map<string, string[]> {
  const alike = new Map<string, string[]>();
  for (const name of names) {
    const printed = printedPath(name);
    if (!printed.includes(UNKNOWN)) continue;
    const known = alike.get(printed);
    if (known === undefined) alike.set(printed, [name]);
    else known.push(name);
  }
  for (const same of alike.values()) {
    same.sort((one, other) => Buffer.compare(pathBytes(one), pathBytes(other)));
  }
  return alike;
}

const disagreement = (path: string) =>
  new EngineError('REPOSITORY_DAMAGED', {
    detail: `The folder does not have what restic has listed: ${path}`,
  });
