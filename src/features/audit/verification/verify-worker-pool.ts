import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { EntrySegment } from '../chain/entry-segment.ts';

const HERE = fileURLToPath(import.meta.url);
const FOLDER = path.dirname(HERE);
const WORKER = path.join(FOLDER, `verify-worker${path.extname(HERE)}`);
/** What a thread is started with: from source by way of what starts TypeScript, built by itself. */
const [PROGRAM, ...ARGUMENTS] =
  path.extname(HERE) === '.ts'
    ? ([path.join(FOLDER, '..', '..', '..', 'run.mjs'), WORKER] as const)
    : ([WORKER] as const);
const MOST = 4;

/** How a line says what an entry is: as Postgres copies it, or as a bundle has it. */
export type EntryFormat = 'copied' | 'bundled';

export interface VerifyRequest {
  form: EntryFormat;
  bytes: Uint8Array;
}

export interface VerifyResponse {
  run: EntrySegment | undefined;
}

interface Waiting {
  resolve: (run: EntrySegment | undefined) => void;
  reject: (error: unknown) => void;
}

interface Thread {
  worker: Worker;
  /** In the order of the questions, which is that of the answers. */
  waiting: Waiting[];
}

/** Threads that look at entries by themselves, so that a long chain is checked by more than one processor. */
export class VerifyWorkerPool {
  readonly #count: number;
  readonly #threads: Thread[] = [];
  #next = 0;
  #failure: Error | undefined;

  constructor(count = Math.min(MOST, availableParallelism())) {
    this.#count = count;
  }

  /** So many questions at once keep all of them busy. */
  get capacity(): number {
    return this.#count * 2;
  }

  /** The run that the entries in these lines are. Fails for good as soon as one thread has failed. */
  ask(question: VerifyRequest): Promise<EntrySegment | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure);
      while (this.#threads.length < this.#count) this.#threads.push(this.#start());
      const thread = this.#threads[this.#next++ % this.#count];
      thread?.waiting.push({ resolve, reject });
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows; this is a thread
      thread?.worker.postMessage(question);
    });
  }

  async close(): Promise<void> {
    this.#fail(new Error('the threads that check audit entries were stopped'));
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  #start(): Thread {
    const thread: Thread = { worker: new Worker(PROGRAM, { argv: ARGUMENTS }), waiting: [] };
    thread.worker.on('message', ({ run }: VerifyResponse) => thread.waiting.shift()?.resolve(run));
    thread.worker.on('messageerror', (error) => this.#fail(error));
    thread.worker.on('error', (error) => this.#fail(error));
    thread.worker.on('exit', (code) =>
      this.#fail(new Error(`a thread that checks audit entries ended with ${code}`)),
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
