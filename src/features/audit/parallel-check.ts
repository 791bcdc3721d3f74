import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { EntrySegment } from '../chain/entry-segment.ts';

const HERE = fileURLToPath(import.meta.url);
const FOLDER = path.dirname(HERE);
const WORKER = path.join(FOLDER, `verify-worker${path.extname(HERE)}`);
/** From source, a thread starts through the TypeScript loader; in a build it starts the worker file directly. */
const [PROGRAM, ...ARGUMENTS] =
  path.extname(HERE) === '.ts'
    ? ([path.join(FOLDER, '..', '..', '..', 'run.mjs'), WORKER] as const)
    : ([WORKER] as const);
const MOST = 4;

/** The format of a line: a row of COPY output, or a line of a bundle. */
export type EntryFormat = 'copy' | 'bundle';

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
