import { constants } from 'node:fs';
import { type FileHandle, open, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { MachineDescription, MachineDisk } from '../../../engine/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { hasCode } from '../../os/files/private-file.ts';
import { describeTable, describeVolumes } from '../../os/partition-tables.ts';
import { readOutput, findProgram } from '../../os/child-process.ts';
import { readFrom } from '../../os/read-disk.ts';
import { isWriteRefused, targetError } from '../../repository/local-engine.ts';
import { assertRoom, checkTargetPath, openTarget } from '../../repository/target-folder.ts';
import { listDisks } from './find-disks.ts';
import { shortened } from '../../../protocol/index.ts';

/** The target of a disk: a new file, a file that stands for a disk, or a disk of this machine. */

export interface DiskTarget {
  handle: FileHandle;
  path: string;
  /** Size of the target, which the copy of a smaller disk does not change. */
  sizeBytes: number;
  isSparse: boolean;
}

export interface TargetQuery {
  target: string;
  /** Size of the disk that is restored. */
  sizeBytes: number;
  /** Bytes that are not known to be zeros: a new file needs this much space. */
  contentBytes: number;
  /** Existing content may be overwritten. */
  mayOverwrite: boolean;
  /** An earlier run has begun to write to the target. */
  isContinued: boolean;
  /** An existing file keeps its size, as a disk does. */
  keepsSize: boolean;
  /** The folder of the agent, which must not be a target. */
  forbidden: string;
}

const HEAD_BYTES = 1024 * 1024;

/** Throws `AgentError` before anything was written. */
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

/** The file is looked up in its open folder, so a link that is placed there meanwhile has no effect. */
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
  // The system refuses to open a disk like this while another program uses it.
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
  throw new AgentError('TARGET_NOT_EMPTY', `${target} is not empty. Allow to overwrite it.`);
}

function refused(error: unknown): never {
  if (hasCode(error, 'EBUSY')) throw targetError('TARGET_UNSAFE', 'The target is in use.');
  if (isWriteRefused(error)) throw targetError('TARGET_NOT_WRITABLE', 'The target cannot be written to.');
  if (hasCode(error, 'ELOOP')) throw targetError('TARGET_UNSAFE', 'The target is a link.');
  throw error;
}

/** Checks of a restored disk that show whether a machine can start from it. */

export interface DiskCheck {
  name: string;
  ok: boolean;
  message?: string;
}

interface Checked {
  handle: FileHandle;
  path: string;
  /** Size of the target. */
  targetBytes: number;
  disk: MachineDisk;
  machine: MachineDescription;
  /** Whether a machine starts from this disk. */
  isBootDisk: boolean;
  signal: AbortSignal;
}

const FSCK_MS = 30 * 60_000;

export async function checkDisk({
  handle,
  path,
  targetBytes,
  disk,
  machine,
  isBootDisk,
  signal,
}: Checked): Promise<DiskCheck[]> {
  const read = readFrom(handle);
  const table = (await describeTable(read, disk.sectorBytes)) ?? null;
  const expected = disk.partitionTable?.partitions.length ?? 0;
  const found = table?.partitions.length ?? 0;
  const checks: DiskCheck[] = [
    {
      name: 'partition table',
      ok: found === expected,
      message: `${found} of ${expected} partitions are there.`,
    },
  ];
  const volumes = await describeVolumes(read, { sizeBytes: targetBytes, partitionTable: table });
  const missing = disk.volumes.filter(
    ({ type, uuid, offset }) =>
      type !== 'unknown' &&
      !volumes.some((each) => each.offset === offset && each.type === type && each.uuid === uuid),
  );
  checks.push({
    name: 'file systems',
    ok: missing.length === 0,
    message: `${disk.volumes.length - missing.length} of ${disk.volumes.length} volumes are there.`,
  });
  const { bootMode } = machine;
  if (isBootDisk && bootMode !== null) checks.push(await checkLoader(read, volumes, bootMode));
  for (const { type, offset, partition } of volumes) {
    if (type === 'ext') checks.push(await checkExt(path, offset, partition, signal));
  }
  return checks;
}

/** Disks that start in both ways, or in none, are not checked. */
async function checkLoader(
  read: ReturnType<typeof readFrom>,
  volumes: readonly { type: string }[],
  bootMode: NonNullable<MachineDescription['bootMode']>,
): Promise<DiskCheck> {
  const ok =
    bootMode === 'uefi'
      ? volumes.some(({ type }) => type === 'vfat')
      : (await read(0, 440)).some((byte) => byte !== 0);
  return {
    name: 'boot loader',
    ok,
    message: ok ? `Found for ${bootMode}.` : `None was found for ${bootMode}.`,
  };
}

/** Changes nothing. A journal with pending entries is no fault: the machine replays it at its start. */
async function checkExt(
  path: string,
  offset: number,
  partition: number | null,
  signal: AbortSignal,
): Promise<DiskCheck> {
  const name = `file system of partition ${partition ?? 0}`;
  const program = await findProgram(['e2fsck'], `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`);
  if (program === undefined || path.includes('?')) {
    return { name, ok: true, message: 'Not checked: e2fsck is not on this machine.' };
  }
  try {
    await readOutput(program, ['-fn', `${path}?offset=${offset}`], { signal, timeoutMs: FSCK_MS });
    return { name, ok: true };
  } catch (error) {
    signal.throwIfAborted();
    return {
      name,
      ok: false,
      message: shortened(error instanceof Error ? error.message : String(error), 300),
    };
  }
}
