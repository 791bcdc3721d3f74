import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../clock.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { S3Error, type S3Options, S3Store } from '../../platform/s3.ts';
import { ProgramScan } from './program-scan.ts';
import type { ReleaseName } from './release-name.ts';

/**
 * The files of local releases: DATA_DIR/releases or a bucket, each under its SHA-256. No name that a client sends gets there.
 */

/** More than any component has; the program with its runtime has about 90 MB. */
export const MAX_BYTES = 512 << 20;
/** The bytes that stay free on the disk, on which the database may be as well. */
const RESERVE_BYTES = 256 << 20;
/** Parts of uploads that a killed server has left. No upload takes so long. */
const ABANDONED_MS = 3_600_000;

/** Long enough to begin a download with; one that breaks off asks again. */
const URL_SECONDS = 300;

/** The operator's object storage. */
export type Bucket = Pick<S3Store, 'put' | 'readUrl'>;

export interface Disk {
  create(file: string): Promise<PartFile>;
  freeBytes(folder: string): Promise<number>;
}

interface PartFile {
  appendFile(piece: Buffer): Promise<void>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

const DISK: Disk = {
  // The files are public, and the command line may run as another user than the server.
  create: (file) => open(file, 'wx', 0o644),
  async freeBytes(folder) {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  },
};

/** A file that has arrived whole and is what it was said to be, but is not in its place yet. */
export interface ReceivedFile {
  /** `undefined` if it is in the bucket. */
  part: string | undefined;
  sha256: string;
  size: number;
}

interface Announced {
  /** The release that the file belongs to. */
  name: ReleaseName;
  /** `undefined` if it is not known, as of a file that the operator names. */
  sha256: string | undefined;
  /** `undefined` if it is not known beforehand. */
  length: number | undefined;
}

/** Where devices find a file: on this machine, or at a URL that works for a few minutes. */
export type FilePlace = { path: string } | { url: string };

export class ReleaseFiles {
  readonly #folder: string;
  readonly #disk: Disk;
  readonly #bucket: Bucket | undefined;

  constructor(dataDir: string, { disk = DISK, bucket }: { disk?: Disk; bucket?: Bucket | undefined } = {}) {
    this.#folder = path.join(dataDir, 'releases');
    this.#disk = disk;
    this.#bucket = bucket;
  }

  /**
   * Writes a file as it arrives, and then to the bucket, if there is one. If anything fails, nothing of it is left
   * here.
   */
  async receive(pieces: AsyncIterable<Buffer>, { name, sha256, length }: Announced): Promise<ReceivedFile> {
    const part = path.join(this.#folder, `${randomUUID()}.part`);
    try {
      await mkdir(this.#folder, { recursive: true });
      await this.#assertRoom(length ?? MAX_BYTES);
      const scan = new ProgramScan();
      const received = await this.#write(part, scanned(pieces, scan));
      if (received.size === 0) throw invalid('body', 'must not be empty', 'The file is empty.');
      if (sha256 !== undefined && received.sha256 !== sha256) {
        throw invalid(
          'headers.X-Content-SHA256',
          'must be the SHA-256 of the file',
          `The file has the SHA-256 ${received.sha256}, and not ${sha256}. It was not stored.`,
        );
      }
      scan.assertIs(name);
      if (this.#bucket === undefined) return { part, ...received };
      await this.#bucket.put(keyOf(received.sha256), createReadStream(part));
      await rm(part, { force: true });
      return { part: undefined, ...received };
    } catch (error) {
      await rm(part, { force: true });
      throw asAppError(error);
    }
  }

  /** Puts a received file in its place, in which it survives a power cut. */
  async keep({ part, sha256 }: ReceivedFile): Promise<void> {
    if (part === undefined) return;
    await rename(part, this.#placeOf(sha256));
    const folder = await open(this.#folder);
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  /** The object in the bucket stays: another release may have the same file. */
  async discard({ part }: ReceivedFile): Promise<void> {
    if (part !== undefined) await rm(part, { force: true });
  }

  /** The location of the file; `undefined` if it is missing or cut off. A bucket is not asked. */
  async find({ sha256, size }: { sha256: string; size: number }): Promise<FilePlace | undefined> {
    const place = this.#placeOf(sha256);
    // One from before the bucket was configured is here.
    const found = await stat(place).catch(() => undefined);
    if (found?.isFile() === true && found.size === size) return { path: place };
    if (this.#bucket === undefined) return undefined;
    return { url: await this.#bucket.readUrl(keyOf(sha256), URL_SECONDS) };
  }

  async remove(sha256: string): Promise<void> {
    await rm(this.#placeOf(sha256), { force: true });
  }

  async removeAbandoned(): Promise<void> {
    const names = await readdir(this.#folder).catch(() => []);
    for (const name of names.filter((one) => one.endsWith('.part'))) {
      const part = path.join(this.#folder, name);
      const found = await stat(part).catch(() => undefined);
      if (found !== undefined && clock.now() - found.mtimeMs > ABANDONED_MS) await rm(part, { force: true });
    }
  }

  async #assertRoom(bytes: number): Promise<void> {
    if ((await this.#disk.freeBytes(this.#folder)) - bytes < RESERVE_BYTES) throw diskIsFull();
  }

  async #write(part: string, pieces: AsyncIterable<Buffer>): Promise<{ sha256: string; size: number }> {
    const file = await this.#disk.create(part);
    const hash = createHash('sha256');
    let size = 0;
    try {
      for await (const piece of pieces) {
        size += piece.length;
        if (size > MAX_BYTES) throw tooLarge();
        hash.update(piece);
        await file.appendFile(piece);
      }
      await file.sync();
    } finally {
      await file.close();
    }
    return { sha256: hash.digest('hex'), size };
  }

  #placeOf(sha256: string): string {
    if (!/^[0-9a-f]{64}$/.test(sha256)) throw new Error('a release file is named by its SHA-256');
    return path.join(this.#folder, sha256);
  }
}

/** Opens the files of releases of an installation. */
export const openReleaseFiles = ({
  dataDir,
  releaseStore,
}: {
  dataDir: string;
  releaseStore: S3Options | undefined;
}) =>
  new ReleaseFiles(dataDir, { bucket: releaseStore === undefined ? undefined : new S3Store(releaseStore) });

async function* scanned(pieces: AsyncIterable<Buffer>, scan: ProgramScan): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    scan.add(piece);
    yield piece;
  }
}

const keyOf = (sha256: string) => `releases/${sha256}`;

const diskIsFull = (cause?: unknown) =>
  new AppError('storage_full', 'The server has no room for this file. Nothing of it was stored.', { cause });

const tooLarge = () =>
  new AppError('payload_too_large', `The file is larger than the ${MAX_BYTES} bytes that are taken.`);

function asAppError(error: unknown): unknown {
  if (error instanceof S3Error) {
    return new AppError('unavailable', `The file was not stored. ${error.message}`, { cause: error });
  }
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOSPC' || code === 'EDQUOT') return diskIsFull(error);
  if (code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE') {
    return invalid('body', 'must arrive whole', 'The upload ended before the file was complete.');
  }
  return error;
}
