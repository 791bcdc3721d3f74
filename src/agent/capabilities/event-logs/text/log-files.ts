import type { Dirent } from 'node:fs';
import { realpath, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { AgentErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { openBelow, OpenFolder } from '../../../os/files/open-folder.ts';
import { PACKINGS, type Packing } from './unpackers.ts';

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
  /** How many files and folders were not looked at, because there are too many or they are too deep. */
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

/** The ends of the names of rotated parts, and their age. Dates count back from a number that no rotation reaches. */
const ROTATIONS: readonly [RegExp, (digits: string) => number][] = [
  [/\.(\d{1,4})$/, Number],
  [/[-.](\d{8})(?:[-T_]?\d{1,10})?$/, (date) => 100_000_000 - Number(date)],
  [
    /[-.](\d{4}-\d\d-\d\d)(?:[-T_.]?\d\d[-:]?\d\d(?:[-:]?\d\d)?)?$/,
    (date) => 100_000_000 - Number(date.replaceAll('-', '')),
  ],
  [/[.-](old|prev|bak)$/, () => 1],
];

/** Parses names such as `syslog.2.gz` and `messages-20251120.xz`; `undefined` where the file is not a log. */
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
