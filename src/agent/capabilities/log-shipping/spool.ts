import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { clock, type Timer } from '../../../clock.ts';
import {
  reconnectDelay,
  refusedDelay,
  type ServerAnswer,
  ServerCallError,
  uploadVerdict,
} from '../../core/server-call.ts';
import type { Tokens } from '../../core/tokens.ts';
import { appendPrivate, readPrivateFile } from '../../os/files/private-file.ts';

/**
 * A queue of records on disk: numbered files of JSON lines, each as large as one batch. A file is sent whole and then
 * deleted, so no other state is needed. When the spool is full, the oldest files are dropped, because the newest records
 * are the most useful.
 */
export interface SpooledBatch {
  name: string;
  records: unknown[];
}

export interface SpoolOptions {
  folder: string;
  maxBytes: number;
  /** The limits of one batch. */
  batchRecords?: number;
  batchBytes?: number;
  /** Called with the number of files that were dropped to make room. */
  onLost: (files: number) => void;
}

interface SpoolFile {
  name: string;
  bytes: number;
  records: number;
  /** Closed files are not appended to. */
  isClosed: boolean;
}

const BATCH_RECORDS = 100;
const BATCH_BYTES = 256 * 1024;
const FILE_NAME = /^\d{12}\.jsonl$/;

export class Spool {
  readonly #options: SpoolOptions;
  readonly #batchRecords: number;
  readonly #batchBytes: number;
  #files: SpoolFile[] = [];
  #nextNumber = 1;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: SpoolOptions) {
    this.#options = options;
    this.#batchRecords = options.batchRecords ?? BATCH_RECORDS;
    this.#batchBytes = options.batchBytes ?? BATCH_BYTES;
  }

  /** Loads the files of an earlier run. */
  async open(): Promise<void> {
    const { folder } = this.#options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const names = (await readdir(folder)).filter((name) => FILE_NAME.test(name)).sort();
    this.#files = await Promise.all(
      names.map(async (name) => ({
        name,
        bytes: (await stat(path.join(folder, name))).size,
        records: 0,
        // A power failure may have cut off its last line.
        isClosed: true,
      })),
    );
    this.#nextNumber = Number.parseInt(names.at(-1) ?? '0', 10) + 1;
  }

  get bytes(): number {
    return this.#files.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Resolves when the records are in their file. The system may write it to the disk later. */
  async add(records: readonly unknown[]): Promise<void> {
    await this.#next(async () => {
      let file = this.#openFile();
      let lines = '';
      for (const record of records) {
        const line = `${JSON.stringify(record)}\n`;
        const bytes = Buffer.byteLength(line);
        const isFull = file.records >= this.#batchRecords || file.bytes + bytes > this.#batchBytes;
        if (isFull && file.records > 0) {
          await this.#write(file, lines);
          lines = '';
          file.isClosed = true;
          file = this.#openFile();
        }
        lines += line;
        file.bytes += bytes;
        file.records += 1;
      }
      await this.#write(file, lines);
      await this.#makeRoom();
    });
  }

  /** The oldest batch. It stays in the spool until it is removed. */
  async oldest(): Promise<SpooledBatch | undefined> {
    return this.#next(async () => {
      for (let [file] = this.#files; file !== undefined; [file] = this.#files) {
        file.isClosed = true;
        const records = parseLines(await this.#read(file.name));
        if (records.length > 0) return { name: file.name, records };
        await this.#delete(file.name);
      }
      return undefined;
    });
  }

  async remove({ name }: SpooledBatch): Promise<void> {
    await this.#next(async () => this.#delete(name));
  }

  #openFile(): SpoolFile {
    const last = this.#files.at(-1);
    if (last?.isClosed === false) return last;
    const name = `${String(this.#nextNumber++).padStart(12, '0')}.jsonl`;
    const file = { name, bytes: 0, records: 0, isClosed: false };
    this.#files.push(file);
    return file;
  }

  async #write(file: SpoolFile, lines: string): Promise<void> {
    try {
      await appendPrivate(path.join(this.#options.folder, file.name), lines);
    } catch (error) {
      // The file may end with a part of a line now.
      file.isClosed = true;
      throw error;
    }
  }

  async #read(name: string): Promise<string> {
    return (await readPrivateFile(path.join(this.#options.folder, name))) ?? '';
  }

  async #delete(name: string): Promise<void> {
    await rm(path.join(this.#options.folder, name), { force: true });
    this.#files = this.#files.filter((file) => file.name !== name);
  }

  async #makeRoom(): Promise<void> {
    let lost = 0;
    for (let [file] = this.#files; this.#files.length > 1 && file !== undefined; [file] = this.#files) {
      if (this.bytes <= this.#options.maxBytes) break;
      await this.#delete(file.name);
      lost += 1;
    }
    if (lost > 0) this.#options.onLost(lost);
  }

  /** Operations run one after another, so that no file is written while it is read. */
  async #next<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }
}

/** A line that is not JSON was cut off and is skipped. */
function parseLines(content: string): unknown[] {
  return content.split('\n').flatMap((line) => {
    if (line === '') return [];
    try {
      return [JSON.parse(line) as unknown];
    } catch {
      return [];
    }
  });
}

interface SenderOptions {
  /** Label of the records in messages. */
  what: string;
  spool: Spool;
  tokens: Tokens;
  /** Throws `ServerCallError` if the server cannot be reached. */
  send: (records: readonly unknown[], token: string, signal: AbortSignal) => Promise<ServerAnswer>;
  warn: (message: string) => void;
  random: () => number;
}

/** Sends the batches of a spool one after another while it is allowed to, and tries again later after a failure. */
export class Sender {
  readonly #options: SenderOptions;
  readonly #stop = new AbortController();
  #mayWork = false;
  #isWorking: Promise<void> | undefined;
  #timer: Timer | undefined;
  #failures = 0;
  /** Set if `wake` was called while the sender found the spool empty. */
  #isWoken = false;
  #isFolderBroken = false;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Allowed while the agent is connected: then the server is reachable, and the valid token is known. */
  allow(mayWork: boolean): void {
    this.#mayWork = mayWork;
    if (!mayWork) clock.clear(this.#timer);
    if (!mayWork) this.#timer = undefined;
    else this.wake();
  }

  /** Must be called when there is something to send. It does not shorten a wait that the server has asked for. */
  wake(): void {
    if (!this.#mayWork || this.#timer !== undefined) return;
    this.#isWoken = true;
    this.#isWorking ??= this.#work().finally(() => {
      this.#isWorking = undefined;
    });
  }

  async stop(): Promise<void> {
    this.allow(false);
    this.#stop.abort();
    await this.#isWorking;
  }

  async #work(): Promise<void> {
    try {
      while (this.#mayWork) {
        this.#isWoken = false;
        const batch = await this.#options.spool.oldest();
        if (batch === undefined && this.#isWoken) continue;
        if (batch === undefined) return;
        const waitMs = await this.#sendBatch(batch.records);
        if (waitMs === undefined) {
          this.#failures = 0;
          await this.#options.spool.remove(batch);
          this.#isFolderBroken = false;
        } else {
          this.#failures += 1;
          this.#waitFor(waitMs);
          return;
        }
      }
    } catch (error) {
      // The folder of the spool cannot be read or changed.
      this.#failures += 1;
      const { what, warn } = this.#options;
      if (!this.#isFolderBroken) warn(`${what} cannot be sent: ${String(error)}.`);
      this.#isFolderBroken = true;
      this.#waitFor(refusedDelay(this.#failures, this.#options.random));
    }
  }

  /** Returns how long to wait before the next attempt; `undefined` if the batch is finished. */
  async #sendBatch(records: readonly unknown[]): Promise<number | undefined> {
    const { what, tokens, send, warn, random } = this.#options;
    let left = records;
    while (left.length > 0) {
      const token = await tokens.current();
      let answer: ServerAnswer;
      try {
        answer = await send(left, token, this.#stop.signal);
      } catch (error) {
        if (error instanceof ServerCallError) return reconnectDelay(this.#failures, random);
        throw error;
      }
      const verdict = uploadVerdict(answer, this.#failures, random);
      switch (verdict.do) {
        case 'done':
          await tokens.accepted(token);
          return undefined;
        case 'resend':
          warn(
            `${what}: the server refused ${verdict.without.size} of ${left.length} records (${answer.refusal ?? ''}).`,
          );
          left = left.filter((_, index) => !verdict.without.has(index));
          break;
        case 'give-up':
          warn(`${what}: the server refused ${left.length} records (${verdict.why}).`);
          return undefined;
        case 'other-token':
          return tokens.refused(token) ? reconnectDelay(1, random) : refusedDelay(this.#failures, random);
        case 'wait':
          return verdict.ms;
        default:
          return verdict satisfies never;
      }
    }
    return undefined;
  }

  #waitFor(ms: number): void {
    if (!this.#mayWork) return;
    this.#timer = clock.setTimeout(() => {
      this.#timer = undefined;
      this.wake();
    }, ms);
    this.#timer.unref();
  }
}
