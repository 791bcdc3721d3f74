import { constants } from 'node:fs';
import { access, lstat, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';

/** Finds the text logs under a folder: each with its rotated parts, newest first. */

export interface LogPart {
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
  /** 0 for the file that is written now, larger for older parts. */
  age: number;
  compressed: boolean;
}

/** Splits `syslog.2.gz`, `messages-20251120.gz` and the like; `undefined` where the file is no log. */
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
  const realRoot = await realpath(root).catch(() => undefined);
  if (realRoot === undefined) return [];
  const logs = new Map<string, { age: number; part: LogPart }[]>();
  let files = 0;

  async function walk(folder: string, depth: number): Promise<void> {
    // A folder that may not be read holds no log that can be shown.
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (files >= FILES_MAX) return;
      const full = path.join(folder, entry.name);
      if (entry.isDirectory()) {
        if (depth < DEPTH) await walk(full, depth + 1);
        continue;
      }
      files += 1;
      const name = parsePartName(entry.name);
      if (name === undefined) continue;
      const part = await readablePart(full, name.compressed, realRoot ?? root);
      if (part === undefined) continue;
      const key = path
        .relative(realRoot ?? root, path.join(folder, name.base))
        .split(path.sep)
        .join('/');
      const parts = logs.get(key) ?? [];
      parts.push({ age: name.age, part });
      logs.set(key, parts);
    }
  }

  await walk(realRoot, 1);
  return [...logs]
    .map(([name, parts]) => ({ name, parts: parts.sort((a, b) => a.age - b.age).map(({ part }) => part) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .slice(0, LOGS_MAX);
}

/** A link is followed only to a file that lies under the same root. */
async function readablePart(
  file: string,
  compressed: boolean,
  realRoot: string,
): Promise<LogPart | undefined> {
  try {
    const link = await lstat(file);
    const target = link.isSymbolicLink() ? await realpath(file) : file;
    if (link.isSymbolicLink() && !target.startsWith(realRoot + path.sep)) return undefined;
    const info = await stat(target);
    if (!info.isFile()) return undefined;
    await access(target, constants.R_OK);
    return { path: target, compressed, size: info.size, writtenAt: info.mtimeMs };
  } catch {
    // Gone or not ours to read: then it is not offered.
    return undefined;
  }
}
