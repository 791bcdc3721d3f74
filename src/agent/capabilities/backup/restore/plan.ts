import { lstat } from 'node:fs/promises';
import path from 'node:path';
import type { CommandOutput } from '../../../../protocol/index.ts';
import { PathList } from '../../../../engine/index.ts';
import { nameBytes } from '../../../os/files/path-bytes.ts';
import { hasCode } from '../../../os/files/private-file.ts';
import { decideOverwrite, type Found, type Overwrite } from './overwrite.ts';
import { add, blockedBy, foundOf } from './place.ts';
import type { Amount } from '../../../repository/room.ts';
import type { Entry } from './selection.ts';

type Planned = NonNullable<CommandOutput<'backup.restore'>['planned']>;

const PLANNED_MAX = 200;
const TOO_LONG = 'its path is too long for this machine';
/** How long a path may be that a system call is given, in bytes without the end of a text in C. */
const PATH_BYTES_MAX: Partial<Record<NodeJS.Platform, number>> = { linux: 4095, darwin: 1023, win32: 32_766 };

/**
 * What becomes of a folder: `new`, and so everything in it; `present`: each name in it is decided by itself; `blocked`:
 * nothing in it is restored.
 */
type FolderState = 'new' | 'present' | 'blocked';

/** Decides what a restore would do, entry by entry as the snapshot lists them, by the rules of the restore itself. */
export class RestorePlan {
  readonly written: Amount = { files: 0, bytes: 0 };
  readonly skipped: Amount = { files: 0, bytes: 0 };
  readonly failed = new PathList();
  /** What cannot be fetched, because its path is too long for this machine. */
  readonly tooLong = new PathList();
  /** The first files that would be written. */
  readonly planned: Planned = [];
  readonly #target: Buffer | undefined;
  readonly #rule: Overwrite;
  readonly #above: number | undefined;
  /** The folders above the entry. */
  readonly #folders: FolderState[] = [];

  /**
   * @param target  `undefined` where the target does not exist yet
   * @param above  the bytes of the folder that is fetched into; `undefined` where the length of paths has no limit
   */
  constructor(target: Buffer | undefined, rule: Overwrite, above: number | undefined) {
    this.#target = target;
    this.#rule = rule;
    this.#above = above;
  }

  async add(entry: Entry): Promise<void> {
    const names = entry.path.split('/').slice(1);
    const level = names.length - 1;
    this.#folders.length = Math.min(this.#folders.length, level);
    const parent = this.#folders.at(-1) ?? (this.#target === undefined ? 'new' : 'present');
    if (parent !== 'blocked' && this.#isTooLong(entry.path)) {
      this.tooLong.add({ path: entry.path, reason: TOO_LONG });
      if (entry.type === 'dir') this.#folders.push(parent);
      return;
    }
    const present = parent === 'present' ? await this.#find(names) : undefined;
    if (entry.type === 'dir') this.#folders.push(parent === 'present' ? this.#enter(entry, present) : parent);
    else if (parent !== 'blocked') this.#file(entry, present);
  }

  #enter(entry: Entry, present: Found | undefined): FolderState {
    if (present === undefined) return 'new';
    const decision = decideOverwrite(this.#rule, restored(entry), present);
    if (decision === 'enter') return 'present';
    if (decision === 'replace') return 'new';
    this.#fail(entry, present);
    return 'blocked';
  }

  #file(entry: Entry, present: Found | undefined): void {
    const amount = { files: 1, bytes: entry.size ?? 0 };
    const decision =
      present === undefined ? 'replace' : decideOverwrite(this.#rule, restored(entry), present);
    if (decision === 'keep') return add(this.skipped, amount);
    if (present !== undefined && decision === 'blocked') return this.#fail(entry, present);
    add(this.written, amount);
    if (this.planned.length >= PLANNED_MAX) return;
    this.planned.push({ path: entry.path, sizeBytes: amount.bytes, replaces: present !== undefined });
  }

  #fail({ path }: Entry, present: Found): void {
    this.failed.add({ path, reason: blockedBy(present.kind === 'folder') });
  }

  #isTooLong(path: string): boolean {
    const max = PATH_BYTES_MAX[process.platform];
    return this.#above !== undefined && max !== undefined && this.#above + nameBytes(path).length > max;
  }

  /** All folders above it are there, and none of them is a link. */
  async #find(names: readonly string[]): Promise<Found | undefined> {
    try {
      const below = names.flatMap((name) => [Buffer.from(path.sep), nameBytes(name)]);
      return foundOf(await lstat(Buffer.concat([this.#target ?? Buffer.of(), ...below]), { bigint: true }));
    } catch (error) {
      if (hasCode(error, 'ENOENT') || hasCode(error, 'ENAMETOOLONG')) return undefined;
      throw error;
    }
  }
}

function restored({ type, mtime }: Entry): Found {
  const kind = type === 'dir' ? 'folder' : type === 'file' ? 'file' : 'other';
  return { kind, changedNs: nanoseconds(mtime) };
}

/** restic prints up to nine digits of a second, of which a `Date` keeps three. */
function nanoseconds(time: string | undefined): bigint {
  if (time === undefined) return 0n;
  const [, digits = ''] = /\.(\d{1,9})/.exec(time) ?? [];
  const seconds = Math.floor(Date.parse(time) / 1000);
  return Number.isNaN(seconds) ? 0n : BigInt(seconds) * 1_000_000_000n + BigInt(digits.padEnd(9, '0'));
}
