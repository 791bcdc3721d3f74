import { statfs } from 'node:fs/promises';
import { targetError } from './backup-error.ts';

export interface Amount {
  files: number;
  bytes: number;
}

const MIB = 1024 ** 2;
/** For the records of the disk itself, and so that it is not filled to the last byte. */
const KEEP_FREE_BYTES = 64 * MIB;
/** A file takes a whole block of the disk, half of which is empty on average. */
const BLOCK_LOSS = 0.5;

/** Throws `TARGET_FULL` where the disk has no room for what is restored. */
export async function assertRoom(folder: string | Buffer, { files, bytes }: Amount): Promise<void> {
  const { bavail, bsize, ffree } = await statfs(folder);
  const needed = bytes + Math.ceil(files * bsize * BLOCK_LOSS) + KEEP_FREE_BYTES;
  const free = bavail * bsize;
  if (needed > free) {
    throw targetError(
      'TARGET_FULL',
      `The restore needs ${inMib(needed)} MiB, and the disk has ${inMib(free)} MiB left. Make room there, or restore to another folder.`,
    );
  }
  // Some file systems have no limit of this kind and report 0.
  if (ffree > 0 && files > ffree) {
    throw targetError('TARGET_FULL', `The restore needs ${files} files, and the disk has room for ${ffree}.`);
  }
}

const inMib = (bytes: number) => Math.ceil(bytes / MIB);
