import type { FileHandle } from 'node:fs/promises';
import { readOutput } from '../processes/child-process.ts';
import { findProgram } from '../processes/find-program.ts';
import { findGpt, moveGpt, type MovedTable } from './gpt.ts';
import { readFrom } from './read-at.ts';

/** What changes on a disk whose content came from a smaller one. */

interface DiskSize {
  sizeBytes: number;
  sectorBytes: number;
}

/** On a larger disk, the second partition table belongs at the new end; with `grow`, the last partition reaches it. */
export async function fitTable(
  handle: FileHandle,
  disk: DiskSize,
  targetBytes: number,
  grow: boolean,
): Promise<MovedTable['grown']> {
  if (targetBytes === disk.sizeBytes) return undefined;
  const read = readFrom(handle);
  const gpt = await findGpt(read, disk.sectorBytes);
  if (gpt === undefined) return undefined;
  const { writes, grown } = moveGpt(gpt, await read(0, disk.sectorBytes), targetBytes, grow);
  for (const { offset, bytes } of writes) await handle.write(bytes, 0, bytes.length, offset);
  await handle.sync();
  return grown;
}

const GROW_MS = 60 * 60_000;
const SECTOR = 512;
const SUPERBLOCK = 1024;
const MAGIC = 0xef53;
const NEEDS_RECOVERY = 4;

/** The device ends when the last program that has it open ends, however that is. */
const ON_LOOP_DEVICE = `PATH="$PATH:/usr/sbin:/sbin"
device=$(losetup --find --show --offset "$2" --sizelimit "$3" "$1")
exec 9<>"$device"
losetup --detach "$device"
"$4" -f "$device"`;

/**
 * Has the ext file system of a partition that was made larger fill it. Returns a sentence for people where that is left to
 * the machine; nothing was changed then.
 */
export async function growFileSystem(
  handle: FileHandle,
  path: string,
  { offset, sizeBytes }: { offset: number; sizeBytes: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  const superblock = await readFrom(handle)(offset + SUPERBLOCK, 128);
  if (superblock.length < 128 || superblock.readUInt16LE(56) !== MAGIC) {
    return 'The last partition was made larger, and the file system in it was not.';
  }
  const later = 'Run resize2fs in the machine to make the file system larger';
  if ((superblock.readUInt32LE(96) & NEEDS_RECOVERY) !== 0) {
    return `${later}: its journal was not replayed yet.`;
  }
  const where = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;
  const [check, resize] = [await findProgram(['e2fsck'], where), await findProgram(['resize2fs'], where)];
  // The programs take what follows a question mark as options.
  if (check === undefined || resize === undefined || path.includes('?')) {
    return `${later}: e2fsprogs is not on this machine.`;
  }
  const place = `${path}?offset=${offset}`;
  const options = { signal, timeoutMs: GROW_MS };
  try {
    // What has a fault is not touched.
    await readOutput(check, ['-fn', place], options);
    if ((await handle.stat()).isFile()) {
      // resize2fs would cut the file off where its file system ends, as if that began with the file.
      const words = [path, String(offset), String(sizeBytes), resize];
      await readOutput('sh', ['-euc', ON_LOOP_DEVICE, 'sh', ...words], options);
    } else {
      await readOutput(resize, ['-f', place, `${Math.floor(sizeBytes / SECTOR)}s`], options);
    }
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    return `${later}: ${(error instanceof Error ? error.message : String(error)).slice(0, 200)}`;
  }
}
