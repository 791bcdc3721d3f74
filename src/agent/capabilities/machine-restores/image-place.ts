import { readOutput } from '../../os/processes/child-process.ts';
import type { ImageDetails } from '../../../protocol/index.ts';
import { machineError } from './machine-error.ts';

/** Where the disks of a machine are in the file of its snapshot. */

/** The only file of a snapshot of one machine. */
export const IMAGE_PATH = '/machine.tar';

const BLOCK = 512;
const READ_MS = 60_000;
/** So that a number of sectors of any guest is a whole one. */
const SECTORS: readonly number[] = [512, 4096];

/** Throws `IMAGE_UNUSABLE` for a description that cannot be one of this file. Its numbers come from another device. */
export function checkDisks({ disks }: ImageDetails, fileBytes: number): void {
  const unusable = (why: string) =>
    machineError('IMAGE_UNUSABLE', `The image in the snapshot cannot be used: ${why}`);
  if (disks.length === 0) throw unusable('it has no disk.');
  if (disks.length > 16) throw unusable('it has more than 16 disks.');
  let free = 0;
  for (const { name, offset, sizeBytes, sectorBytes } of disks) {
    const shown = JSON.stringify(name.slice(0, 100));
    if (!SECTORS.includes(sectorBytes)) {
      throw unusable(`the disk ${shown} has sectors of ${sectorBytes} bytes.`);
    }
    if (sizeBytes === 0 || sizeBytes % sectorBytes !== 0) {
      throw unusable(`the disk ${shown} has no whole sectors.`);
    }
    if (offset % BLOCK !== 0 || offset < Math.max(free, BLOCK)) {
      throw unusable(`the disk ${shown} is misplaced.`);
    }
    free = offset + sizeBytes;
    if (free > fileBytes) throw unusable(`the disk ${shown} lies beyond the end of its file.`);
  }
}

/** Whether a block is the header of a file in an archive, with this size. */
export function isHeaderOf(header: Buffer, sizeBytes: number): boolean {
  if (header.length < BLOCK || header.toString('latin1', 257, 262) !== 'ustar') return false;
  return archiveNumber(header.subarray(124, 136)) === sizeBytes;
}

/** Octal digits, or a binary number where they are too few. */
function archiveNumber(field: Buffer): number {
  if (((field[0] ?? 0) & 0x80) === 0) {
    return Number.parseInt(field.toString('latin1').replace(/[\0 ].*$/s, ''), 8);
  }
  return Number(BigInt(`0x${field.subarray(1).toString('hex')}`));
}

/** The same of the file on a mount, which may hang: so another process reads it. */
export async function checkHeaders({ disks }: ImageDetails, file: string): Promise<void> {
  for (const { name, offset, sizeBytes } of disks) {
    const words = [`if=${file}`, `bs=${BLOCK}`, `skip=${offset / BLOCK - 1}`, 'count=1', 'status=none'];
    const header = await readOutput('dd', words, { timeoutMs: READ_MS, decode: () => 'latin1' });
    if (isHeaderOf(Buffer.from(header, 'latin1'), sizeBytes)) continue;
    const shown = JSON.stringify(name.slice(0, 100));
    throw machineError(
      'IMAGE_UNUSABLE',
      `The image in the snapshot does not hold the disk ${shown} where it says.`,
    );
  }
}
