import { constants } from 'node:fs';
import { link, mkdir, open, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { replaceFile, syncFolder } from '../os/files/private-file.ts';
import { readLines, toLine, type JournalRecord } from './journal-line.ts';

/** Where the store writes what must outlive the agent. */
export interface Journal {
  /** Everything that was written. Where some of it could not be read, the caller replaces the whole. */
  open(): Promise<{ records: JournalRecord[]; isDamaged: boolean }>;
  /**
   * Resolves when the record is on the disk; rejects when it is not, and then it will not be. `written` is called
   * before anything else happens to the journal.
   */
  write(record: JournalRecord, written?: () => void): Promise<void>;
  /** Puts fewer records that say the same in the place of all; asked for when its turn has come. */
  replace(records: () => readonly JournalRecord[]): Promise<void>;
  /** In bytes. */
  readonly size: number;
  close(): Promise<void>;
}

interface Waiting {
  bytes: Buffer;
  written: () => void;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** A file that is only appended to. Records that come while it writes share the next write and its fsync. */
export class JournalFile implements Journal {
  readonly #file: string;
  readonly #warn: (message: string) => void;
  #handle: FileHandle | undefined;
  #size = 0;
  /** A failed write may have left a part of itself behind what counts. */
  #hasRest = false;
  #waiting: Waiting[] = [];
  #turn: Promise<void> = Promise.resolve();

  constructor(file: string, warn: (message: string) => void) {
    this.#file = file;
    this.#warn = warn;
  }

  get size(): number {
    return this.#size;
  }

  async open(): Promise<{ records: JournalRecord[]; isDamaged: boolean }> {
    await mkdir(path.dirname(this.#file), { recursive: true, mode: 0o700 });
    this.#handle = await open(this.#file, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    await syncFolder(path.dirname(this.#file));
    const content = await this.#handle.readFile();
    this.#size = content.lastIndexOf('\n') + 1;
    this.#hasRest = content.length > this.#size;
    const found = readLines(content.toString('utf8', 0, this.#size));
    if (found.isDamaged) await this.#keepAside();
    return found;
  }

  write(record: JournalRecord, written: () => void = () => {}): Promise<void> {
    const bytes = Buffer.from(toLine(record));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ bytes, written, resolve, reject });
      if (this.#waiting.length === 1) void this.#next(() => this.#writeWaiting());
    });
  }

  replace(records: () => readonly JournalRecord[]): Promise<void> {
    return this.#next(async () => {
      const bytes = Buffer.from(records().map(toLine).join(''));
      const handle = await replaceFile(this.#file, bytes);
      await this.#handle?.close();
      this.#handle = handle;
      this.#size = bytes.length;
      this.#hasRest = false;
    });
  }

  async close(): Promise<void> {
    await this.#next(async () => {
      await this.#handle?.close();
      this.#handle = undefined;
    });
  }

  /** One thing at a time happens to the file. */
  #next(act: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(act);
    this.#turn = done.catch(() => {});
    return done;
  }

  async #writeWaiting(): Promise<void> {
    const batch = this.#waiting;
    this.#waiting = [];
    try {
      await this.#append(Buffer.concat(batch.map(({ bytes }) => bytes)));
    } catch (error) {
      for (const { reject } of batch) reject(error);
      return;
    }
    for (const { written, resolve } of batch) {
      written();
      resolve();
    }
  }

  async #append(bytes: Buffer): Promise<void> {
    const handle = this.#handle;
    if (handle === undefined) throw new Error('the journal is not open');
    if (this.#hasRest) await this.#cutRest(handle);
    try {
      for (let from = 0; from < bytes.length; ) {
        const { bytesWritten } = await handle.write(bytes, from, bytes.length - from, this.#size + from);
        from += bytesWritten;
      }
      await handle.datasync();
    } catch (error) {
      this.#hasRest = true;
      // At once, so that what has been refused is not found at the next start.
      await this.#cutRest(handle).catch(() => {});
      throw error;
    }
    this.#size += bytes.length;
  }

  async #cutRest(handle: FileHandle): Promise<void> {
    await handle.truncate(this.#size);
    await handle.datasync();
    this.#hasRest = false;
  }

  /** A second name is enough: what is damaged is replaced, not changed. */
  async #keepAside(): Promise<void> {
    const aside = `${this.#file}.damaged-${new Date().toISOString().replaceAll(':', '')}`;
    try {
      await link(this.#file, aside);
      this.#warn(
        `The journal of commands was damaged. It is kept as ${aside}; what could be read of it counts.`,
      );
    } catch (error) {
      this.#warn(`The journal of commands was damaged, and could not be kept aside: ${String(error)}`);
    }
  }
}
