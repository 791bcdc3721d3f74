import { constants } from 'node:fs';
import { link, mkdir, open, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { CommandResult } from '../../protocol/index.ts';
import { replaceFile, syncFolder } from '../os/files/private-file.ts';

/** The records of a command in the journal, in the order in which they are written. */
export const JournalRecord = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('accepted'),
    id: z.string(),
    type: z.string(),
    payload: z.unknown(),
    epoch: z.number(),
  }),
  z.object({ kind: z.literal('started'), id: z.string(), at: z.string() }),
  z.object({ kind: z.literal('finished'), result: CommandResult }),
  /** The hub has the result. From now on only the id of the command is stored. */
  z.object({ kind: z.literal('done'), id: z.string(), at: z.number() }),
]);
export type JournalRecord = z.infer<typeof JournalRecord>;

/** A line consists of a checksum and the JSON, so that disk damage is detected. */
function toLine(record: JournalRecord): string {
  const json = JSON.stringify(record);
  return `${checksum(json)} ${json}\n`;
}

/** `undefined` for a line that is damaged. */
function fromLine(line: string): JournalRecord | undefined {
  const json = line.slice(9);
  if (line.slice(0, 9) !== `${checksum(json)} `) return undefined;
  const record = JournalRecord.safeParse(JSON.parse(json));
  return record.success ? record.data : undefined;
}

const checksum = (json: string) => crc32(json).toString(16).padStart(8, '0');

/** The records of complete lines, and whether some could not be read. */
function readLines(text: string): { records: JournalRecord[]; isDamaged: boolean } {
  const lines = text.split('\n').slice(0, -1);
  const records = lines.map(fromLine).filter((record) => record !== undefined);
  return { records, isDamaged: records.length < lines.length };
}

/** The storage of records that must survive the agent. */
export interface Journal {
  /** Returns all records. If some could not be read, the caller must replace the journal. */
  open(): Promise<{ records: JournalRecord[]; isDamaged: boolean }>;
  /**
   * Resolves when the record is on disk. If it rejects, the record is not in the journal and never will be. `written` is
   * called before the next operation on the journal.
   */
  write(record: JournalRecord, written?: () => void): Promise<void>;
  /** Replaces all records. `records` is called once the earlier operations have ended. */
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

/** An append-only file. Records that arrive during a write share the next write and its fsync. */
export class JournalFile implements Journal {
  readonly #file: string;
  readonly #warn: (message: string) => void;
  #handle: FileHandle | undefined;
  #size = 0;
  /** A failed write may have left a partial record after the valid ones. */
  #hasPartialRecord = false;
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
    this.#hasPartialRecord = content.length > this.#size;
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
      this.#hasPartialRecord = false;
    });
  }

  async close(): Promise<void> {
    await this.#next(async () => {
      await this.#handle?.close();
      this.#handle = undefined;
    });
  }

  /** Operations on the file run one after another. */
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
    if (this.#hasPartialRecord) await this.#cutPartialRecord(handle);
    try {
      for (let from = 0; from < bytes.length; ) {
        const { bytesWritten } = await handle.write(bytes, from, bytes.length - from, this.#size + from);
        from += bytesWritten;
      }
      await handle.datasync();
    } catch (error) {
      this.#hasPartialRecord = true;
      // Truncate now, so that the next start does not find a record that was reported as failed.
      await this.#cutPartialRecord(handle).catch(() => {});
      throw error;
    }
    this.#size += bytes.length;
  }

  async #cutPartialRecord(handle: FileHandle): Promise<void> {
    await handle.truncate(this.#size);
    await handle.datasync();
    this.#hasPartialRecord = false;
  }

  /** A hard link is enough, because the damaged file is replaced and not changed. */
  async #keepAside(): Promise<void> {
    const aside = `${this.#file}.damaged-${clock.date().toISOString().replaceAll(':', '')}`;
    try {
      await link(this.#file, aside);
      this.#warn(
        `The journal of commands was damaged. It is kept as ${aside}; the records that could be read are used.`,
      );
    } catch (error) {
      this.#warn(`The journal of commands was damaged, and could not be kept: ${String(error)}`);
    }
  }
}
