import type { EntrySegment } from '../chain/entry-segment.ts';
import { LineChunk, linesIn } from './line-chunk.ts';
import type { EntryFormat, VerifyWorkerPool } from './verify-worker-pool.ts';

/** A check that accepts single lines, or many lines at once as a verified segment. */
export interface LineCheck {
  format: EntryFormat;
  line(line: Buffer): void;
  /** Returns false if it cannot accept the segment; each of its lines is then passed to `line`. */
  segment(segment: EntrySegment): boolean;
}

/** About 700 entries. */
const CHUNK_BYTES = 1 << 19;
/** About 12,000 entries: up to this size, starting threads takes longer than it saves. */
const INLINE_BYTES = 1 << 23;

/**
 * Passes lines to a check in order, with most of the work done beforehand in worker threads. The threads only confirm
 * that lines are valid. Where they do not, the check examines each line itself, so its report is the same either way.
 */
export class ParallelCheck {
  readonly #check: LineCheck;
  readonly #workers: Pick<VerifyWorkerPool, 'verify' | 'capacity'>;
  readonly #chunkBytes: number;
  #inlineBytes: number;
  #chunk: LineChunk | undefined;
  /** Chunks in the worker threads, each settled after the previous one. */
  readonly #pending: Promise<void>[] = [];
  #last: Promise<void> = Promise.resolve();

  constructor(
    check: LineCheck,
    workers: Pick<VerifyWorkerPool, 'verify' | 'capacity'>,
    { chunkBytes = CHUNK_BYTES, inlineBytes = INLINE_BYTES } = {},
  ) {
    this.#check = check;
    this.#workers = workers;
    this.#chunkBytes = chunkBytes;
    this.#inlineBytes = inlineBytes;
  }

  /** Copies the line, which comes without its line end. If it returns a promise, wait for it before the next call. */
  add(line: Buffer): void | Promise<void> {
    if (this.#inlineBytes > 0) {
      this.#inlineBytes -= line.length;
      this.#check.line(line);
      return;
    }
    let room: Promise<void> | undefined;
    if (this.#chunk?.hasRoomFor(line) === false) room = this.#send(this.#chunk);
    this.#chunk ??= new LineChunk(Math.max(this.#chunkBytes, line.length + 1));
    this.#chunk.add(line);
    return room;
  }

  async end(): Promise<void> {
    await this.#last;
    for (const line of linesIn(this.#chunk?.bytes ?? Buffer.alloc(0))) this.#check.line(line);
  }

  #send({ bytes }: LineChunk): Promise<void> | undefined {
    this.#chunk = undefined;
    const { format } = this.#check;
    this.#last = Promise.all([this.#workers.verify({ format, bytes }), this.#last]).then(([segment]) => {
      if (segment !== undefined && this.#check.segment(segment)) return;
      for (const line of linesIn(bytes)) this.#check.line(line);
    });
    // The rejection is handled where the promise is awaited, possibly after later chunks have failed as well.
    this.#last.catch(() => {});
    this.#pending.push(this.#last);
    return this.#pending.length < this.#workers.capacity ? undefined : this.#pending.shift();
  }
}
