import { constants } from 'node:fs';
import { mkdir, mkdtemp, open, rm, statfs, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { AgentErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';

export interface UnpackSpaceOptions {
  /** A private folder on a disk. On many systems the general folder for temporary files is in memory. */
  folder: string;
  partBytes?: number;
  allBytes?: number;
  keepFreeBytes?: number;
  /** For tests. */
  freeBytes?: (folder: string) => Promise<number>;
}

const MB = 1024 ** 2;
/** About five million lines, the most that one query reads. */
const PART_BYTES = 512 * MB;
const ALL_BYTES = 1024 * MB;
const KEEP_FREE_BYTES = 512 * MB;
const FREE_CHECK_BYTES = 16 * MB;
const NEW_FILE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * Limits the disk space of unpacked logs for the whole program, so that several queries of large logs do not fill the
 * disk. Each file is unlinked as soon as it is open, so that it disappears when it is closed, even by a crash.
 */
export class UnpackSpace {
  readonly #options: Required<UnpackSpaceOptions>;
  #taken = 0;

  constructor(options: UnpackSpaceOptions) {
    this.#options = {
      partBytes: PART_BYTES,
      allBytes: ALL_BYTES,
      keepFreeBytes: KEEP_FREE_BYTES,
      freeBytes: async (folder) => {
        const { bavail, bsize } = await statfs(folder);
        return bavail * bsize;
      },
      ...options,
    };
  }

  /** Removes files that a killed agent has created and not yet unlinked. */
  async clear(): Promise<void> {
    await rm(this.#options.folder, { recursive: true, force: true });
  }

  /** Throws `AgentError` if there is no space left. */
  async open(): Promise<SpaceFile> {
    const { folder, partBytes } = this.#options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const file = new SpaceFile(await unlinkedFile(folder), partBytes, async (bytes) => this.#take(bytes));
    if ((await this.#room()) > 0) return file;
    await file.close();
    throw noRoom();
  }

  /** Reserves up to `bytes` and returns how many were granted. A negative number releases them. */
  async #take(bytes: number): Promise<number> {
    const granted = bytes < 0 ? bytes : Math.min(bytes, await this.#room());
    this.#taken += granted;
    return granted;
  }

  async #room(): Promise<number> {
    const { folder, allBytes, keepFreeBytes, freeBytes } = this.#options;
    const free = await freeBytes(folder);
    return Math.max(0, Math.min(allBytes - this.#taken, free - keepFreeBytes));
  }
}

export const noRoom = () =>
  new AgentError(
    AgentErrorCode.busy,
    'The agent has no space to unpack a compressed log now: other queries use it, or the disk is nearly full.',
  );

/** Used by the command line, whose user cannot access the agent's folder. */
export const temporarySpace = () =>
  new UnpackSpace({ folder: path.join(tmpdir(), `muster-agent-${process.pid}`) });

/** One file in the space, written once from start to end and then read. */
export class SpaceFile {
  readonly handle: FileHandle;
  readonly #maxBytes: number;
  readonly #take: (bytes: number) => Promise<number>;
  #granted = 0;
  #size = 0;
  #isClosed = false;

  constructor(handle: FileHandle, maxBytes: number, take: (bytes: number) => Promise<number>) {
    this.handle = handle;
    this.#maxBytes = maxBytes;
    this.#take = take;
  }

  get size(): number {
    return this.#size;
  }

  /** Returns whether there was space for all bytes. */
  async append(bytes: Buffer): Promise<boolean> {
    if (this.#size + bytes.length > this.#granted) {
      const wanted = Math.min(this.#maxBytes - this.#granted, Math.max(bytes.length, FREE_CHECK_BYTES));
      this.#granted += await this.#take(wanted);
    }
    const kept = bytes.subarray(0, Math.max(0, this.#granted - this.#size));
    for (let from = 0; from < kept.length; ) {
      const { bytesWritten } = await this.handle.write(kept, from, kept.length - from, this.#size);
      this.#size += bytesWritten;
      from += bytesWritten;
    }
    return kept.length === bytes.length;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.handle.close();
    await this.#take(-this.#granted);
  }
}

async function unlinkedFile(folder: string): Promise<FileHandle> {
  const own = await mkdtemp(path.join(folder, 'part-'));
  try {
    return await open(path.join(own, 'unpacked'), NEW_FILE, 0o600);
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}
