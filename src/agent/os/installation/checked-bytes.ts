import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { ReleaseManifest } from '../../../protocol/index.ts';
import { ReleaseRefused } from './release-check.ts';

type Bytes = Pick<ReleaseManifest, 'size' | 'sha256'>;

/** The bytes of a release, if they are exactly those that its manifest names. They are read once. */
export async function readChecked(file: FileHandle, { size, sha256 }: Bytes): Promise<Buffer> {
  await assertSize(file, size);
  const bytes = Buffer.alloc(size);
  let length = 0;
  while (length < size) {
    const { bytesRead } = await file.read(bytes, length, size - length, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  assertHash(length === size ? createHash('sha256').update(bytes).digest('hex') : '', sha256);
  return bytes;
}

/** The same for a file that is too large to be kept in memory. */
export async function checkBytes(file: FileHandle, { size, sha256 }: Bytes): Promise<void> {
  await assertSize(file, size);
  const hash = createHash('sha256');
  const buffer = Buffer.alloc(256 * 1024);
  for (let at = 0; at < size; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, size - at), at);
    if (bytesRead === 0) break;
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  assertHash(hash.digest('hex'), sha256);
}

/** Before anything is read, so that a file of any size costs nothing. */
async function assertSize(file: FileHandle, size: number): Promise<void> {
  const found = await file.stat();
  if (found.size !== size) {
    throw new ReleaseRefused(
      'SIZE_MISMATCH',
      `The file has ${found.size} bytes, and its manifest names ${size}.`,
    );
  }
}

function assertHash(found: string, expected: string): void {
  if (found !== expected) {
    throw new ReleaseRefused('CHECKSUM_MISMATCH', 'The file is not the one that its manifest names.');
  }
}
