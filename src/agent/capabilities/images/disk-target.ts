import { constants } from 'node:fs';
import { type FileHandle, open, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { AgentError } from '../../../core/agent-error.ts';
import { hasCode } from '../../../os/files/private-file.ts';
import { isWriteRefused, targetError } from '../../../repository/backup-error.ts';
import { assertRoom } from '../../../repository/room.ts';
import { checkTargetPath, openTarget } from '../../../repository/target-folder.ts';
import { listDisks } from '../find-disks.ts';
import { readFrom } from '../../../os/partitions/read-at.ts';

/** Where a disk is written to: a new file, a file that stands for a disk, or a disk of this machine. */

export interface DiskTarget {
  handle: FileHandle;
  path: string;
  /** Its own, which a copy of a smaller disk leaves as it is. */
  sizeBytes: number;
  isSparse: boolean;
}

export interface TargetQuery {
  target: string;
  /** Of the disk that comes there. */
  sizeBytes: number;
  /** What is not known to be zeros: a new file needs room for this much. */
  contentBytes: number;
  /** Something that is there may be lost. */
  mayOverwrite: boolean;
  /** An earlier run has begun to write it. */
  isContinued: boolean;
  /** A file that is there keeps its size, as a disk does. */
  keepsSize: boolean;
  /** The folder of the agent, which is no target. */
  forbidden: string;
}

const HEAD_BYTES = 1024 * 1024;

/** Throws `AgentError`; nothing was written then. */
export async function openDiskTarget(query: TargetQuery): Promise<DiskTarget> {
  const { target, forbidden } = query;
  checkTargetPath(target, forbidden);
  const found = await stat(target).catch(() => undefined);
  if (found?.isBlockDevice() === true) return openDevice(query);
  if (found !== undefined && !found.isFile()) {
    throw targetError('TARGET_UNSAFE', `${target} is neither a file nor a disk.`);
  }
  return openFile(query, found === undefined ? undefined : found.size);
}

/** The file is looked up in its folder, which is held open, so that a link that is put there meanwhile has no effect. */
async function openFile(query: TargetQuery, size: number | undefined): Promise<DiskTarget> {
  const { target, sizeBytes, contentBytes, keepsSize, isContinued, mayOverwrite } = query;
  const folder = await openTarget(path.dirname(target));
  try {
    checkTargetPath(folder.path, query.forbidden);
    const isDisk = size !== undefined && size > 0 && keepsSize;
    if (isDisk) assertLargeEnough(target, size, sizeBytes);
    if (!isContinued) await assertRoom(folder.path, { files: 1, bytes: contentBytes });
    const handle = await folder
      .fileToWrite(path.basename(target), { mustBeNew: size === undefined })
      .catch(refused);
    try {
      if (size !== undefined && size > 0 && !isContinued && !mayOverwrite) await assertEmpty(handle, target);
      if (isDisk) return { handle, path: target, sizeBytes: size, isSparse: false };
      return { handle, path: target, sizeBytes, isSparse: true };
    } catch (error) {
      await handle.close();
      throw error;
    }
  } finally {
    await folder.close();
  }
}

async function openDevice({
  target,
  sizeBytes,
  mayOverwrite,
  isContinued,
}: TargetQuery): Promise<DiskTarget> {
  const device = await realpath(target);
  const disk = (await listDisks()).find((each) => each.path === device);
  if (disk === undefined) throw targetError('TARGET_UNSAFE', `${device} is no whole disk of this machine.`);
  if (disk.isInUse) {
    throw targetError(
      'TARGET_UNSAFE',
      `Something on ${device} is mounted or in use. Nothing was written to it.`,
    );
  }
  assertLargeEnough(device, disk.sizeBytes, sizeBytes);
  // Of a disk, this is refused by the system while anything else uses it.
  const handle = await open(device, constants.O_RDWR | constants.O_EXCL).catch(refused);
  try {
    if (!isContinued && !mayOverwrite) await assertEmpty(handle, device);
    return { handle, path: device, sizeBytes: disk.sizeBytes, isSparse: false };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function assertLargeEnough(target: string, has: number, needs: number): void {
  if (has >= needs) return;
  throw new AgentError(
    'TARGET_TOO_SMALL',
    `${target} has ${has} bytes, and the disk of the image needs ${needs}: ${needs - has} bytes more. Nothing was written.`,
  );
}

async function assertEmpty(handle: FileHandle, target: string): Promise<void> {
  const head = await readFrom(handle)(0, HEAD_BYTES);
  if (head.every((byte) => byte === 0)) return;
  throw new AgentError(
    'TARGET_NOT_EMPTY',
    `There is something on ${target}. Say that it may be overwritten.`,
  );
}

function refused(error: unknown): never {
  if (hasCode(error, 'EBUSY')) throw targetError('TARGET_UNSAFE', 'The target is in use.');
  if (isWriteRefused(error)) throw targetError('TARGET_NOT_WRITABLE', 'The target cannot be written to.');
  if (hasCode(error, 'ELOOP')) throw targetError('TARGET_UNSAFE', 'The target is a link.');
  throw error;
}
