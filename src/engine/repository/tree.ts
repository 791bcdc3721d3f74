import { z } from 'zod';
import { escapeLiteral, pathText } from '../../protocol/index.ts';
import type { BlobIndex } from './blob-index.ts';
import { readBlob } from './file-content.ts';
import { type ObjectKey, damaged, type ObjectSource } from './object-encoding.ts';
import { EventLoopYield } from './event-loop-yield.ts';

/** Folders of a snapshot. Each is a blob, with the ids of its subfolders. */

const Hash = z.string().regex(/^[0-9a-f]{64}$/);
const TYPES = ['file', 'dir', 'symlink', 'dev', 'chardev', 'fifo', 'socket', 'irregular'] as const;

const fields = {
  name: z.string(),
  type: z.enum(TYPES).catch('irregular'),
  size: z.number().min(0).default(0),
  mode: z.number().int().min(0).optional(),
  mtime: z.string().max(64).optional(),
  subtree: Hash.nullish(),
};
const Node = z.object(fields).transform(asEntry).refine(hasName, 'must be a name');

/** Including the parts of files and link targets, which a browser does not need and which use memory. */
const WholeNode = z
  .object({
    ...fields,
    content: z.array(Hash).nullish(),
    linktarget: z.string().optional(),
    /** Set if the target is not UTF-8. */
    linktarget_raw: z.base64().optional(),
  })
  .transform(
    ({ content, linktarget, linktarget_raw: raw, ...node }): WholeEntry => ({
      ...asEntry(node),
      content: content ?? [],
      linkTarget: linkTargetOf(linktarget, raw),
    }),
  )
  .refine(hasName, 'must be a name');
const Tree = z.object({ nodes: z.array(z.unknown()).nullable() });

export interface FolderEntry {
  /** As `pathText` writes it. */
  name: string;
  type: (typeof TYPES)[number];
  sizeBytes: number;
  mode: number | null;
  /** As restic prints it. */
  modifiedAt: string | null;
  /** The blob with the content of a folder. */
  subtree: string | null;
}

export interface WholeEntry extends FolderEntry {
  /** The ids of the blobs with the content of a file, in order. */
  content: readonly string[];
  /** Target of a symbolic link, as `pathText` writes it. */
  linkTarget: string | null;
}

/** Enough for some hundred thousand entries. A larger folder would fill the memory of the server. */
const TREE_BYTES_MAX = 128 * 1024 * 1024;
const CACHED_ENTRIES = 100_000;
/** With its name and its path to the next folder, as objects. Measured: 200 to 300 bytes. */
const ENTRY_BYTES = 300;
export const TREE_CACHE_BYTES = CACHED_ENTRIES * ENTRY_BYTES;

export class TreeReader {
  readonly #source: ObjectSource;
  readonly #key: ObjectKey;
  readonly #index: BlobIndex;
  /** Caches the folders that were read last, because a folder is requested page by page. */
  readonly #cache = new Map<string, FolderEntry[]>();
  #cachedEntries = 0;

  constructor(source: ObjectSource, key: ObjectKey, index: BlobIndex) {
    this.#source = source;
    this.#key = key;
    this.#index = index;
  }

  /** The entries of a folder in restic's order: by the bytes of their names. */
  async read(id: string): Promise<readonly FolderEntry[]> {
    const cached = this.#cache.get(id);
    if (cached !== undefined) {
      this.#cache.delete(id);
      this.#cache.set(id, cached);
      return cached;
    }
    const entries = await parseTree(await this.#readBlob(id), Node);
    this.#keep(id, entries);
    return entries;
  }

  /** The same with the parts of files. Not cached, because these use more memory than everything else. */
  async readWhole(id: string): Promise<readonly WholeEntry[]> {
    return parseTree(await this.#readBlob(id), WholeNode);
  }

  #readBlob(id: string): Promise<Buffer> {
    return readBlob(
      { source: this.#source, key: this.#key, index: this.#index },
      { id, maxBytes: TREE_BYTES_MAX, what: 'a folder' },
    );
  }

  #keep(id: string, entries: FolderEntry[]): void {
    if (entries.length > CACHED_ENTRIES) return;
    this.#cache.set(id, entries);
    this.#cachedEntries += entries.length;
    for (const [oldest, { length }] of this.#cache) {
      if (this.#cachedEntries <= CACHED_ENTRIES) return;
      this.#cache.delete(oldest);
      this.#cachedEntries -= length;
    }
  }
}

const NODES_BETWEEN_TURNS = 200;

async function parseTree<Entry>(content: Buffer, node: z.ZodType<Entry>): Promise<Entry[]> {
  let value: unknown;
  try {
    value = JSON.parse(content.toString('utf8'));
  } catch {
    throw damaged('A folder is not JSON.');
  }
  const parsed = Tree.safeParse(value);
  if (!parsed.success) throw unknownForm();
  const eventLoop = new EventLoopYield();
  const entries: Entry[] = [];
  for (const each of parsed.data.nodes ?? []) {
    const entry = node.safeParse(each);
    if (!entry.success) throw unknownForm();
    entries.push(entry.data);
    if (entries.length % NODES_BETWEEN_TURNS === 0) await eventLoop.yield();
  }
  return entries;
}

function linkTargetOf(target: string | undefined, raw: string | undefined): string | null {
  if (raw !== undefined) return pathText(Buffer.from(raw, 'base64'));
  return target === undefined ? null : escapeLiteral(target);
}

const unknownForm = () => damaged('A folder has an unknown form.');

function asEntry({
  name,
  type,
  size,
  mode,
  mtime,
  subtree,
}: z.output<z.ZodObject<typeof fields>>): FolderEntry {
  return {
    name: pathText(unquoteName(name)),
    type,
    sizeBytes: size,
    mode: mode ?? null,
    modifiedAt: mtime ?? null,
    subtree: subtree ?? null,
  };
}

/** restic does not restore other names either: they would lead out of the folder. */
function hasName({ name }: FolderEntry): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name);
}

/** restic writes names like quoted Go strings, because JSON cannot contain names that are not UTF-8. */

const ESCAPE = /\\(?:([abfnrtv\\'"])|x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))/g;
const CONTROLS: Readonly<Record<string, string>> = {
  a: '\u0007',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

/** The bytes of a name. */
export function unquoteName(quoted: string): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  for (const match of quoted.matchAll(ESCAPE)) {
    const [whole, control, hex, octal, short, long] = match;
    parts.push(Buffer.from(quoted.slice(from, match.index), 'utf8'));
    from = match.index + whole.length;
    if (control !== undefined) parts.push(Buffer.from(CONTROLS[control] ?? control));
    else if (hex !== undefined) parts.push(Buffer.from([Number.parseInt(hex, 16)]));
    else if (octal !== undefined) parts.push(Buffer.from([Number.parseInt(octal, 8) & 0xff]));
    else parts.push(Buffer.from(characterOf(Number.parseInt(short ?? long ?? '', 16))));
  }
  parts.push(Buffer.from(quoted.slice(from), 'utf8'));
  return Buffer.concat(parts);
}

const characterOf = (code: number) => (code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd');
