import type { UnreadablePath } from './backup-output.ts';

const KEPT = 1000;
const PATH_MAX = 4096;
const REASON_MAX = 300;

/** The first paths of a list that may be endless, each path once, and how many there were in all. */
export class PathList {
  readonly #kept = new Map<string, UnreadablePath>();
  #isCut = false;

  add({ path, reason }: UnreadablePath): void {
    const key = path.slice(0, PATH_MAX);
    const known = this.#kept.get(key);
    // restic names a file when it counts and again when it reads.
    if (known !== undefined) known.reason ||= reason.slice(0, REASON_MAX);
    else if (this.#kept.size >= KEPT) this.#isCut = true;
    else this.#kept.set(key, { path: key, reason: reason.slice(0, REASON_MAX) });
  }

  get isEmpty(): boolean {
    return this.#kept.size === 0;
  }

  report(): PathReport {
    return { paths: [...this.#kept.values()], isComplete: !this.#isCut };
  }
}

export interface PathReport {
  paths: UnreadablePath[];
  /** Whether all paths are listed. */
  isComplete: boolean;
}
