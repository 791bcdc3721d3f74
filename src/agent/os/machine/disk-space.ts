import { statfs } from 'node:fs/promises';
import { osType } from './os-type.ts';

/** The size and free space of the system disk, in bytes. */
export async function diskSpace(): Promise<{ total: number; free: number } | undefined> {
  try {
    const { blocks, bavail, bsize } = await statfs(osType() === 'windows' ? String.raw`C:\ `.trim() : '/');
    return { total: blocks * bsize, free: bavail * bsize };
  } catch {
    // Some file systems do not report their size.
    return undefined;
  }
}
