import type { EntrySegment } from '../chain/entry-segment.ts';
import { LineChunk, linesIn } from './line-chunk.ts';
import type { EntryFormat, VerifyWorkerPool } from './verify-worker-pool.ts';

/** A check that takes lines one by one, or the entries that many of them are as a run. */
export interface LineCheck {
  form: EntryFormat;
  line(line: Buffer): void;
  /** Answers whether it could take them so; where not, each line is given to `line`. */
  run(run: EntrySegment): boolean;
}

/** About 700 entries. */
const CHUNK_BYTES = 1 << 19;
/** About 12,000 entries, for which starting threads takes longer than they would save. */
const ALONE_BYTES = 1 << 23;

/**
 * Gives lines to a check in their order, with what can be done beforehand done by threads. These only ever say that all
 * is well with some lines; wherever they do not, the check looks at each line itself, and so says what it always says.
 */
export class ParallelCheck {
  readonly #check: LineCheck;
  readonly #workers: Pick<VerifyWorkerPool, 'ask' | 'capacity'>;
  readonly #chunkBytes: number;
  #alone: number;
  #chunk: LineChunk | undefined;
  /** Chunks that are with the threads, each settled after the one before it. */
  readonly #pending: Promise<void>[] = [];
  #last: Promise<void> = Promise.resolve();

  constructor(
    check: LineCheck,
    workers: Pick<VerifyWorkerPool, 'ask' | 'capacity'>,
    { chunkBytes = CHUNK_BYTES, aloneBytes = ALONE_BYTES } = {},
  ) {
    this.#check = check;
    this.#workers = workers;
    this.#chunkBytes = chunkBytes;
    this.#alone = aloneBytes;
  }

  /** Copies the line, without its end. Where it answers a promise, no more may come until that is settled. */
  add(line: Buffer): void | Promise<void> {
    if (this.#alone > 0) {
      this.#alone -= line.length;
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
    const { form } = this.#check;
    this.#last = Promise.all([this.#workers.ask({ form, bytes }), this.#last]).then(([run]) => {
      if (run !== undefined && this.#check.run(run)) return;
      for (const line of linesIn(bytes)) this.#check.line(line);
    });
    // Told of where it is waited for, which may be after the next ones have failed too.
    this.#last.catch(() => {});
    this.#pending.push(this.#last);
    return this.#pending.length < this.#workers.capacity ? undefined : this.#pending.shift();
  }
}
