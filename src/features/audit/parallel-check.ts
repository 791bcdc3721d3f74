import type { EntrySegment } from './chain.ts';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

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
 * that lines are valid. If they do not, the check examines each line itself, so its report is the same either way.
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

const HERE = fileURLToPath(import.meta.url);

const FOLDER = path.dirname(HERE);

const WORKER = path.join(FOLDER, `verify-worker${path.extname(HERE)}`);

/** From source, a thread starts through the TypeScript loader; in a build it starts the worker file directly. */
const [PROGRAM, ...ARGUMENTS] =
  path.extname(HERE) === '.ts'
    ? ([path.join(FOLDER, '..', '..', 'run.mjs'), WORKER] as const)
    : ([WORKER] as const);

const MOST = 4;

/** The format of a line: a row of COPY output, or a line of a bundle. */
type EntryFormat = 'copy' | 'bundle';

export interface VerifyRequest {
  format: EntryFormat;
  bytes: Uint8Array;
}

export interface VerifyResponse {
  segment: EntrySegment | undefined;
}

interface Waiting {
  resolve: (segment: EntrySegment | undefined) => void;
  reject: (error: unknown) => void;
}

interface Thread {
  worker: Worker;
  /** In the order of the requests; the thread responds in the same order. */
  waiting: Waiting[];
}

/** Worker threads that verify segments of a chain in parallel. */
export class VerifyWorkerPool {
  readonly #count: number;
  readonly #threads: Thread[] = [];
  #next = 0;
  #failure: Error | undefined;

  constructor(count = Math.min(MOST, availableParallelism())) {
    this.#count = count;
  }

  /** The number of concurrent requests that keeps all threads busy. */
  get capacity(): number {
    return this.#count * 2;
  }

  /** Resolves to the segment in these lines, or undefined if it has a fault. Once one thread fails, all calls reject. */
  verify(request: VerifyRequest): Promise<EntrySegment | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure);
      while (this.#threads.length < this.#count) this.#threads.push(this.#start());
      const thread = this.#threads[this.#next++ % this.#count];
      thread?.waiting.push({ resolve, reject });
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- the rule is for browser windows; this is a worker thread
      thread?.worker.postMessage(request);
    });
  }

  async close(): Promise<void> {
    this.#fail(new Error('the threads that verify audit entries were stopped'));
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  #start(): Thread {
    const thread: Thread = { worker: new Worker(PROGRAM, { argv: ARGUMENTS }), waiting: [] };
    thread.worker.on('message', ({ segment }: VerifyResponse) => thread.waiting.shift()?.resolve(segment));
    thread.worker.on('messageerror', (error) => this.#fail(error));
    thread.worker.on('error', (error) => this.#fail(error));
    thread.worker.on('exit', (code) =>
      this.#fail(new Error(`a thread that verifies audit entries exited with code ${code}`)),
    );
    return thread;
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { waiting } of this.#threads) {
      for (const one of waiting.splice(0)) one.reject(this.#failure);
    }
  }
}

export const LINE_END = 0x0a;

/** A buffer of whole lines. */
export class LineChunk {
  readonly #bytes: Buffer;
  #end = 0;

  constructor(size: number) {
    // Not from the shared pool: a buffer sent to a thread is copied together with its whole underlying memory.
    this.#bytes = Buffer.allocUnsafeSlow(size);
  }

  hasRoomFor(line: Buffer): boolean {
    return this.#end + line.length < this.#bytes.length;
  }

  /** Copies the line and adds a line end. */
  add(line: Buffer): void {
    this.#bytes.set(line, this.#end);
    this.#end += line.length;
    this.#bytes[this.#end++] = LINE_END;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#end);
  }
}

/** The complete lines in the bytes, without line ends. */
export function* linesIn(bytes: Buffer): Generator<Buffer> {
  let from = 0;
  for (let end = bytes.indexOf(LINE_END); end >= 0; end = bytes.indexOf(LINE_END, from)) {
    yield bytes.subarray(from, end);
    from = end + 1;
  }
}
