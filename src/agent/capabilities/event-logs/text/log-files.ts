import { createHash } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { realpath, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import type { Transform } from 'node:stream';
import { createGunzip } from 'node:zlib';
import * as zlib from 'node:zlib';
import { AgentErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { openBelow, OpenFolder } from '../../../os/files/open-folder.ts';
import { streamBytes, findProgram } from '../../../os/child-process.ts';
import { parseHead } from './line-format.ts';
import { isZero } from './backward-lines.ts';
import { noRoom, type UnpackSpace } from './unpack-space.ts';

/** Finds the text logs below a folder, each with its rotated parts, the newest first. */

export interface LogPart {
  /** The root folder, without links. The part must be below it. */
  root: string;
  /** Its path at the time of the search, without links. */
  path: string;
  packing: Packing | undefined;
  size: number;
  writtenAt: number;
}

export interface TextLog {
  name: string;
  parts: LogPart[];
}

export interface FoundLogs {
  logs: TextLog[];
  /** How many files and folders were not searched, because there are too many or they are too deep. */
  unsearched: number;
}

/** Deep enough for the logs of containers: `pods/<pod>/<container>/0.log`. */
const DEPTH = 5;
const FILES_MAX = 20_000;

/** The names of logs without an ending. */
const KNOWN = new Set(
  (
    'syslog messages secure maillog mail cron dmesg debug daemon warn localmessages spooler history y2log ' +
    'authlog xferlog slapd boot'
  ).split(' '),
);
const LOG_NAME = /(?:\.(?:log|out|err|txt|info|warn|warning|notice|error)|[._-]log)$|^log\./i;

export interface PartName {
  base: string;
  /** 0 for the file that is being written, larger for older parts. */
  age: number;
  packing: Packing | undefined;
}

/** The suffixes of rotated parts, and their age. Dates count back from a number that no rotation reaches. */
const ROTATIONS: readonly [RegExp, (digits: string) => number][] = [
  [/\.(\d{1,4})$/, Number],
  [/[-.](\d{8})(?:[-T_]?\d{1,10})?$/, (date) => 100_000_000 - Number(date)],
  [
    /[-.](\d{4}-\d\d-\d\d)(?:[-T_.]?\d\d[-:]?\d\d(?:[-:]?\d\d)?)?$/,
    (date) => 100_000_000 - Number(date.replaceAll('-', '')),
  ],
  [/[.-](old|prev|bak)$/, () => 1],
];

/** Parses names such as `syslog.2.gz` and `messages-20251120.xz`; `undefined` if the file is not a log. */
export function parsePartName(file: string): PartName | undefined {
  const packing = PACKINGS.find((ending) => file.endsWith(`.${ending}`));
  const plain = packing === undefined ? file : file.slice(0, -packing.length - 1);
  for (const [pattern, ageOf] of ROTATIONS) {
    const found = pattern.exec(plain);
    if (found?.[1] === undefined) continue;
    const base = plain.slice(0, found.index);
    if (isLog(base)) return { base, age: ageOf(found[1]), packing };
  }
  return isLog(plain) ? { base: plain, age: packing === undefined ? 0 : 1, packing } : undefined;
}

const isLog = (name: string) => KNOWN.has(name) || LOG_NAME.test(name);

export async function findTextLogs(root: string): Promise<FoundLogs> {
  const top = await OpenFolder.open(root).catch(() => undefined);
  if (top === undefined) return { logs: [], unsearched: 0 };
  const logs = new Map<string, { age: number; part: LogPart }[]>();
  let files = 0;
  let unsearched = 0;

  async function walk(folder: OpenFolder, depth: number): Promise<void> {
    for (const entry of await folder.entries()) {
      if (files >= FILES_MAX) {
        unsearched += 1;
        continue;
      }
      if (entry.isDirectory()) {
        if (depth < DEPTH) await within(() => folder.folder(entry.name), depth + 1);
        else unsearched += 1;
        continue;
      }
      files += 1;
      const name = parsePartName(entry.name);
      if (name === undefined) continue;
      const part = await readablePart(folder, entry, name.packing);
      if (part === undefined) continue;
      const key = path.relative(realRoot, path.join(folder.path, name.base)).split(path.sep).join('/');
      const parts = logs.get(key) ?? [];
      parts.push({ age: name.age, part });
      logs.set(key, parts);
    }
  }

  async function within(open: () => Promise<OpenFolder>, depth: number): Promise<void> {
    // A folder that cannot be read has no logs to offer.
    const folder = await open().catch(() => undefined);
    if (folder === undefined) return;
    try {
      await walk(folder, depth);
    } catch {
      // The folder was removed while it was read.
    } finally {
      await folder.close();
    }
  }

  const realRoot = top.path;
  /** A link is followed only to a file below the same root. */
  async function readablePart(
    folder: OpenFolder,
    entry: Dirent,
    packing: Packing | undefined,
  ): Promise<LogPart | undefined> {
    try {
      const own = path.join(folder.path, entry.name);
      const target = entry.isSymbolicLink() ? await realpath(own) : own;
      if (!target.startsWith(realRoot + path.sep)) return undefined;
      const handle =
        target === own
          ? await folder.file(entry.name)
          : await openBelow(realRoot, path.relative(realRoot, target));
      try {
        const { size, mtimeMs } = await handle.stat();
        return { root: realRoot, path: target, packing, size, writtenAt: mtimeMs };
      } finally {
        await handle.close();
      }
    } catch {
      // The file was removed or cannot be read, so it is not offered.
      return undefined;
    }
  }

  await within(async () => top, 1);
  const found = [...logs]
    .map(([name, parts]) => ({ name, parts: parts.sort((a, b) => a.age - b.age).map(({ part }) => part) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return { logs: found, unsearched };
}

/** All readers open logs here: a part is opened at the path where it was found, or not at all. */
export async function openLogFile({ root, path: file }: Pick<LogPart, 'root' | 'path'>): Promise<FileHandle> {
  const name = path.relative(root, file);
  return openBelow(root, name).catch(() => {
    throw new AgentError(
      AgentErrorCode.failed,
      `The log file ${name} cannot be opened: it was removed or replaced.`,
    );
  });
}

/**
 * One part of a log, open for reading at any position.
 *
 * A compressed part can only be read from its start, but queries read from its end. Keeping the last lines in memory
 * would serve the first page only, so the part is unpacked into a file.
 */
export interface OpenPart {
  handle: FileHandle;
  size: number;
  /** False if the part was too large to be unpacked completely, or its end is missing. */
  complete: boolean;
  close(): Promise<void>;
}

export interface PartTools {
  space: UnpackSpace;
  unpack: Unpack;
}

export async function openPart(
  part: LogPart,
  signal: AbortSignal,
  { space, unpack }: PartTools,
): Promise<OpenPart> {
  const handle = await openLogFile(part);
  if (part.packing === undefined) {
    const { size } = await handle.stat();
    return { handle, size, complete: true, close: () => handle.close() };
  }
  try {
    const content = await unpack(part.packing, handle, signal);
    if (content === undefined) throw noUnpacker(part.packing);
    return await unpackInto(space, content, signal);
  } finally {
    await handle.close();
  }
}

async function unpackInto(
  space: UnpackSpace,
  content: AsyncIterable<Buffer>,
  signal: AbortSignal,
): Promise<OpenPart> {
  const file = await space.open();
  let complete = true;
  let isFull = false;
  try {
    for await (const chunk of content) {
      isFull = !(await file.append(chunk));
      complete = !isFull && !signal.aborted;
      if (!complete) break;
    }
  } catch (error) {
    // The start of a part that is cut off, too large or being written can still be read.
    complete = false;
    if (file.size === 0 && !signal.aborted) {
      await file.close();
      throw isFull ? noRoom() : error;
    }
  }
  return { handle: file.handle, size: file.size, complete, close: () => file.close() };
}

const ZERO_BLOCK = 64 * 1024;

/**
 * The start of the content. A program that keeps writing after its file was truncated leaves a hole of zeros before
 * it.
 */
export async function startOfContent({ handle, size }: Pick<OpenPart, 'handle' | 'size'>): Promise<number> {
  const buffer = Buffer.allocUnsafe(ZERO_BLOCK);
  for (let position = 0; position < size; ) {
    const { bytesRead } = await handle.read(buffer, 0, ZERO_BLOCK, position);
    if (bytesRead === 0) break;
    const block = buffer.subarray(0, bytesRead);
    if (!isZero(block)) return position + block.findIndex((byte) => byte !== 0);
    position += bytesRead;
  }
  return 0;
}

const IDENTITY_BYTES = 4096;
const IDENTITY_LINE_MAX = 256;
const IDENTITY_BITS = 18;
const OFFSET_BITS = 35;

/**
 * The base of the record ids of a part: 18 bits from the hash of its first line with a time, above 35 bits for the offset (32 GiB),
 * together within 2^53. Rotation and compression change the name and the inode of a file but not its first line, so each
 * entry keeps its id.
 */
export async function idBaseOf(handle: FileHandle, start: number): Promise<number> {
  const buffer = Buffer.alloc(IDENTITY_BYTES);
  const { bytesRead } = await handle.read(buffer, 0, IDENTITY_BYTES, start);
  const lines = buffer.toString('latin1', 0, bytesRead).split('\n');
  const complete = lines.slice(0, -1);
  const first =
    complete.find((line) => parseHead(line, 0) !== undefined) ??
    lines.find((line) => line.trim() !== '') ??
    '';
  const digest = createHash('sha256').update(first.slice(0, IDENTITY_LINE_MAX), 'latin1').digest();
  return (digest.readUInt32BE(0) >>> (32 - IDENTITY_BITS)) * 2 ** OFFSET_BITS;
}

export function splitRecordId(recordId: number): { idBase: number; offset: number } {
  const offset = recordId % 2 ** OFFSET_BITS;
  return { idBase: recordId - offset, offset };
}

/** How a rotated part is compressed, by the end of its name. */
const PACKINGS = ['gz', 'xz', 'zst', 'bz2', 'lz4', 'lzma', 'Z'] as const;
type Packing = (typeof PACKINGS)[number];

/** The content of a compressed file; `undefined` if this machine has no program for it. */
export type Unpack = (
  packing: Packing,
  packed: FileHandle,
  signal: AbortSignal,
) => Promise<AsyncIterable<Buffer> | undefined>;

/** The programs that are part of most systems. Each reads its input and writes its output. */
const PROGRAMS: Readonly<Record<Exclude<Packing, 'gz'>, readonly [names: string[], ...args: string[]]>> = {
  xz: [['xz'], '-dc'],
  lzma: [['xz'], '--format=lzma', '-dc'],
  zst: [['zstd'], '-dcq', '--long=31'],
  bz2: [['bzip2'], '-dc'],
  lz4: [['lz4'], '-dc'],
  Z: [['gzip', 'uncompress'], '-dc'],
};

/** Unpacks in this process what Node.js can, and the rest with the programs of the machine. */
export const unpack: Unpack = async (packing, packed, signal) => {
  const inProcess = packing === 'gz' ? createGunzip() : packing === 'zst' ? zstdOfNode() : undefined;
  if (inProcess !== undefined) return through(packed, inProcess);
  if (packing === 'gz') return undefined;
  const [names, ...args] = PROGRAMS[packing];
  const program = await findProgram(names);
  return program === undefined ? undefined : streamBytes(program, args, { signal, stdin: packed.fd });
};

/** Reads nothing before the first chunk is requested, so that no error occurs without a listener. */
async function* through(packed: FileHandle, transform: Transform): AsyncGenerator<Buffer, void> {
  const source = packed.createReadStream({ start: 0, autoClose: false });
  source.on('error', (error) => transform.destroy(error));
  try {
    yield* source.pipe(transform) as AsyncIterable<Buffer>;
  } finally {
    source.destroy();
  }
}

/** Node.js has zstd from 22.15 on. */
function zstdOfNode(): Transform | undefined {
  const create: unknown = Reflect.get(zlib, 'createZstdDecompress');
  if (typeof create !== 'function') return undefined;
  const transform: unknown = create();
  return isTransform(transform) ? transform : undefined;
}

function isTransform(value: unknown): value is Transform {
  return typeof value === 'object' && value !== null && 'pipe' in value && 'destroy' in value;
}

export const noUnpacker = (packing: Packing) =>
  new AgentError(AgentErrorCode.failed, `this machine has no program that unpacks .${packing} files.`);
