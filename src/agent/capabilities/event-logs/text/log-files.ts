import type { Dirent } from 'node:fs';
import { realpath, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { AgentErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { openBelow, OpenFolder } from '../../../os/files/open-folder.ts';

/** Finds the text logs below a folder, each with its rotated parts, the newest first. */

export interface LogPart {
  /** The root folder, without links. The part must be below it. */
  root: string;
  /** Its path at the time of the search, without links. */
  path: string;
  compressed: boolean;
  size: number;
  writtenAt: number;
}

export interface TextLog {
  name: string;
  parts: LogPart[];
}

const DEPTH = 3;
const LOGS_MAX = 500;
const FILES_MAX = 20_000;
const KNOWN = new Set(['syslog', 'messages', 'secure', 'maillog', 'cron', 'dmesg', 'debug', 'daemon']);

export interface PartName {
  base: string;
  /** 0 for the file that is being written, larger for older parts. */
  age: number;
  compressed: boolean;
}

/** Parses names such as `syslog.2.gz` and `messages-20251120.gz`; `undefined` where the file is not a log. */
export function parsePartName(file: string): PartName | undefined {
  const compressed = file.endsWith('.gz');
  const plain = compressed ? file.slice(0, -3) : file;
  const numbered = /^(.+)\.(\d{1,4})$/.exec(plain);
  const dated = /^(.+)-(\d{8})(?:-?\d{1,10})?$/.exec(plain);
  let base = plain;
  let age = compressed ? 1 : 0;
  if (numbered?.[1] !== undefined) {
    base = numbered[1];
    age = Number(numbered[2]);
  } else if (dated?.[1] !== undefined) {
    base = dated[1];
    age = 100_000_000 - Number(dated[2]);
  }
  return base.endsWith('.log') || KNOWN.has(base) ? { base, age, compressed } : undefined;
}

export async function findTextLogs(root: string): Promise<TextLog[]> {
  const top = await OpenFolder.open(root).catch(() => undefined);
  if (top === undefined) return [];
  const logs = new Map<string, { age: number; part: LogPart }[]>();
  let files = 0;

  async function walk(folder: OpenFolder, depth: number): Promise<void> {
    for (const entry of await folder.entries()) {
      if (files >= FILES_MAX) return;
      if (entry.isDirectory()) {
        if (depth < DEPTH) await within(() => folder.folder(entry.name), depth + 1);
        continue;
      }
      files += 1;
      const name = parsePartName(entry.name);
      if (name === undefined) continue;
      const part = await readablePart(folder, entry, name.compressed);
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
    compressed: boolean,
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
        return { root: realRoot, path: target, compressed, size, writtenAt: mtimeMs };
      } finally {
        await handle.close();
      }
    } catch {
      // The file was removed or cannot be read, so it is not offered.
      return undefined;
    }
  }

  await within(async () => top, 1);
  return [...logs]
    .map(([name, parts]) => ({ name, parts: parts.sort((a, b) => a.age - b.age).map(({ part }) => part) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .slice(0, LOGS_MAX);
}

/** All readers open logs here: a part is opened where it was found, or not at all. */
export async function openLogFile({ root, path: file }: Pick<LogPart, 'root' | 'path'>): Promise<FileHandle> {
  const name = path.relative(root, file);
  return openBelow(root, name).catch(() => {
    throw new AgentError(
      AgentErrorCode.failed,
      `The log file ${name} cannot be opened: it was removed or replaced.`,
    );
  });
}
