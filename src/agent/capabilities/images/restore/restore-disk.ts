import type { MachineDisk } from '../../../../engine/index.ts';
import { fitTable, growFileSystem } from '../../../os/partitions/fit-disk.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { copyDisk } from './copy-disk.ts';
import { CopyJournal } from './copy-journal.ts';
import { openDiskTarget } from './disk-target.ts';
import { checkDisk, type DiskCheck } from './finish-disk.ts';
import type { OpenedImage } from './open-image.ts';

/** One disk of an image, from the repository to its target. */

export interface DiskRestore {
  image: OpenedImage;
  snapshotId: string;
  disk: string;
  target: string;
  mayOverwrite: boolean;
  keepsSize: boolean;
  /** Makes the last partition reach the end of a larger target, and an ext file system in it. */
  grow: boolean;
  /** Where an interrupted run has noted what it has written. */
  journalFile: string;
  forbidden: string;
  extentBytes?: number | undefined;
  signal: AbortSignal;
  onProgress: (phase: string, done: number, total: number) => void;
}

export interface RestoredDisk {
  disk: string;
  target: string;
  bytes: number;
  /** Of the disk as it was read back, before its table was fitted to the target. */
  sha256: string;
  /** What an earlier run had written already. */
  continuedFrom: number;
  grown: { number: number; sizeBytes: number } | null;
  checks: DiskCheck[];
}

const EXTENT_BYTES = 64 * 1024 * 1024;

export async function restoreDisk(restore: DiskRestore): Promise<RestoredDisk> {
  const { image, snapshotId, target, signal, extentBytes = EXTENT_BYTES } = restore;
  const { place, described } = findDisk(image, restore.disk);
  const identity = { snapshotId, disk: place.name, sizeBytes: place.sizeBytes, target, extentBytes };
  const journal = await CopyJournal.open(restore.journalFile, identity);
  const isContinued = journal.hashes.length > 0;
  const opened = await openDiskTarget({
    target,
    sizeBytes: place.sizeBytes,
    contentBytes: described.contentBytes ?? place.sizeBytes,
    mayOverwrite: restore.mayOverwrite,
    isContinued,
    keepsSize: restore.keepsSize,
    forbidden: restore.forbidden,
  });
  const { handle } = opened;
  try {
    let continuedFrom = 0;
    const sha256 = await copyDisk({
      sizeBytes: place.sizeBytes,
      read(first) {
        continuedFrom = first;
        return image.read(place, first);
      },
      target: handle,
      isSparse: opened.isSparse,
      journal,
      extentBytes,
      signal,
      onProgress: (phase, done) => restore.onProgress(phase, done, place.sizeBytes),
    });
    const grown = await fitTable(handle, described, opened.sizeBytes, restore.grow);
    const notGrown =
      grown === undefined ? undefined : await growFileSystem(handle, opened.path, grown, signal);
    const isBootDisk = image.disks[0]?.name === place.name;
    const machine = image.description;
    const checks = await checkDisk({
      handle,
      path: opened.path,
      targetBytes: opened.sizeBytes,
      disk: described,
      machine,
      isBootDisk,
      signal,
    });
    if (notGrown !== undefined) checks.push({ name: 'growth', ok: true, message: notGrown });
    await journal.remove();
    return {
      disk: place.name,
      target,
      bytes: place.sizeBytes,
      sha256,
      continuedFrom,
      grown: grown === undefined ? null : { number: grown.number, sizeBytes: grown.sizeBytes },
      checks,
    };
  } finally {
    await handle.close();
  }
}

function findDisk({ disks, description }: OpenedImage, name: string) {
  const place = disks.find((each) => each.name === name);
  const described: MachineDisk | undefined = description.disks.find((each) => each.name === name);
  if (place !== undefined && described !== undefined) return { place, described };
  const names = disks.map((each) => each.name).join(', ');
  throw new AgentError('DISK_MISSING', `The image has no disk ${name}. It has: ${names}.`);
}

/** The disk that is named, or the only one. Throws `DISK_MISSING`. */
export function diskOf({ disks }: OpenedImage, name: string | undefined): string {
  const [only, ...others] = disks;
  if (name !== undefined) return name;
  if (only !== undefined && others.length === 0) return only.name;
  throw new AgentError('DISK_MISSING', `The image has ${disks.length} disks. Name one of them.`);
}
