import { createHash } from 'node:crypto';
import { PATH_TEXT_MAX } from '../../protocol/index.ts';
import type { UnreadablePath } from './backup-output.ts';

const KEPT = 1000;
const COUNTED = 100_000;
const REASON_MAX = 300;

/** The first paths of a list that may be endless, each path once, and how many there were in all. */
export class PathList {
  readonly #kept = new Map<string, UnreadablePath>();
  /** Of those that are not kept: restic names a path more than once. */
  readonly #counted = new Set<string>();

  add({ path, reason }: UnreadablePath): void {
    const key = path.slice(0, PATH_TEXT_MAX);
    const known = this.#kept.get(key);
    // restic names a file when it counts and again when it reads.
    if (known !== undefined) known.reason ||= shortReason(reason);
    else if (this.#kept.size < KEPT) this.#kept.set(key, { path: key, reason: shortReason(reason) });
    else if (this.#counted.size < COUNTED) this.#counted.add(shortened(path));
  }

  get isEmpty(): boolean {
    return this.#kept.size === 0;
  }

  report(): PathReport {
    return { paths: [...this.#kept.values()], count: this.#kept.size + this.#counted.size };
  }
}

export interface PathReport {
  /** The first of them. */
  paths: UnreadablePath[];
  /** How many there were, up to 101,000. */
  count: number;
}

/** Programs say last what is wrong, behind the path. */
const shortReason = (reason: string): string =>
  reason.length <= REASON_MAX ? reason : `${reason.slice(0, 99)}…${reason.slice(-200)}`;

const shortened = (path: string) => createHash('sha1').update(path).digest('base64').slice(0, 16);
