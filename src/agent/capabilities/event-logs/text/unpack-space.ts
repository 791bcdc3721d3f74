import { constants } from 'node:fs';
import { mkdir, mkdtemp, open, rm, statfs, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { AgentErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';

export interface UnpackSpaceOptions {
  /** A private folder on a disk: in many systems the general one for temporary files is memory. */
  folder: string;
  partBytes?: number;
  allBytes?: number;
  keepFreeBytes?: number;
  /** For tests. */
  freeBytes?: (folder: string) => Promise<number>;
}

const MB = 1024 ** 2;
/** About five million lines, which is as many as one query reads. */
const PART_BYTES = 512 * MB;
const ALL_BYTES = 1024 * MB;
const KEEP_FREE_BYTES = 512 * MB;
const FREE_CHECK_BYTES = 16 * MB;
const NEW_FILE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * The disk that unpacked logs take, bounded for the whole program: several queries at once, each over a log that
 * unpacks to gigabytes, must not fill it. Each file loses its name as soon as it is open, so that it is gone when it is
 * closed, even by a crash.
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

  /** Removes what a killed agent has left between making a file and taking its name away. */
  async clear(): Promise<void> {
    await rm(this.#options.folder, { recursive: true, force: true });
  }

  /** Throws `AgentError` where there is no room for anything now. */
  async open(): Promise<SpaceFile> {
    const { folder, partBytes } = this.#options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const file = new SpaceFile(await withoutName(folder), partBytes, async (bytes) => this.#take(bytes));
    if ((await this.#room()) > 0) return file;
    await file.close();
    throw noRoom();
  }

  /** Answers how many of the bytes there is room for; a negative number gives them back. */
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
    'The agent has no room to unpack a compressed log now: other queries use it, or the disk is nearly full.',
  );

/** The space of a command that was started by a person, who has no folder of the agent. */
export const temporarySpace = () =>
  new UnpackSpace({ folder: path.join(tmpdir(), `muster-agent-${process.pid}`) });

/** One file in the space: written from its start to its end, then read. */
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

  /** Answers whether there was room for all of it. */
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

async function withoutName(folder: string): Promise<FileHandle> {
  const own = await mkdtemp(path.join(folder, 'part-'));
  try {
    return await open(path.join(own, 'unpacked'), NEW_FILE, 0o600);
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}
