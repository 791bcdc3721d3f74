import { createHash } from 'node:crypto';
import type { RunSystemProgram } from '../../../os/processes/system-program.ts';
import { type LogicalVolume, LVS, parseReports, type PhysicalVolume, PVS } from './lvm-report.ts';

/** Snapshots of volumes of LVM, which exist while a backup reads them. */

const PREFIX = 'muster-image-';
/** What changes while a backup runs has to fit into a snapshot, or it becomes useless. */
const SHARE_OF_VOLUME = 0.15;
const LEAST_BYTES = 64 * 1024 * 1024;
const USUAL_LEAST_BYTES = 1024 * 1024 * 1024;
/** Something stays for others who need extents meanwhile. */
const SHARE_OF_FREE = 0.8;

export interface VolumeGroups {
  physical: PhysicalVolume[];
  logical: LogicalVolume[];
}

/** `undefined` where LVM is not installed, or says nothing that is understood. */
export async function readGroups(run: RunSystemProgram): Promise<VolumeGroups | undefined> {
  try {
    return parseReports(await run('lvs', LVS), await run('pvs', PVS));
  } catch {
    return undefined;
  }
}

/** How large the snapshot of each volume is; none for those whose group has no room for it. */
export function snapshotExtents(
  volumes: readonly LogicalVolume[],
  physical: readonly PhysicalVolume[],
): Map<LogicalVolume, number> {
  const sizes = new Map<LogicalVolume, number>();
  for (const group of new Set(volumes.map((volume) => volume.group))) {
    const place = physical.find((each) => each.group === group);
    if (place === undefined || place.extentBytes === 0) continue;
    const own = volumes.filter((volume) => volume.group === group);
    const share = Math.floor((place.freeExtents * SHARE_OF_FREE) / own.length);
    for (const volume of own) {
      const wanted = Math.max(USUAL_LEAST_BYTES, volume.sizeBytes * SHARE_OF_VOLUME);
      const extents = Math.min(share, Math.ceil(Math.min(wanted, volume.sizeBytes) / place.extentBytes));
      const isEnough = extents * place.extentBytes >= Math.min(LEAST_BYTES, volume.sizeBytes);
      if (isEnough && extents > 0) sizes.set(volume, extents);
    }
  }
  return sizes;
}

export interface LvmSnapshot {
  group: string;
  name: string;
  /** The device that is read. */
  path: string;
}

/** LVM stops the file system for a moment, so that what is on it is whole. */
export async function createSnapshot(
  run: RunSystemProgram,
  { group, name }: LogicalVolume,
  { extents, jobId }: { extents: number; jobId: string },
): Promise<LvmSnapshot> {
  const mark = createHash('sha256').update(`${jobId} ${group}/${name}`).digest('hex').slice(0, 16);
  const own = `${PREFIX}${mark}`;
  const size = ['--extents', String(extents)];
  const options = ['--snapshot', '--permission', 'r', '--setactivationskip', 'n', '--name', own, ...size];
  await run('lvcreate', [...options, `${group}/${name}`]);
  const made = (await run('lvs', ['--noheadings', '-o', 'lv_path', `${group}/${own}`])).trim();
  return { group, name: own, path: made };
}

/** Whether everything that has changed since has fit into it. */
export async function isWhole(run: RunSystemProgram, { group, name }: LvmSnapshot): Promise<boolean> {
  const words = ['--noheadings', '--binary', '-o', 'lv_snapshot_invalid', `${group}/${name}`];
  const answer = (await run('lvs', words)).trim();
  return answer === '0';
}

export async function removeSnapshot(
  run: RunSystemProgram,
  { group, name }: Pick<LvmSnapshot, 'group' | 'name'>,
): Promise<void> {
  await run('lvremove', ['--yes', '--force', `${group}/${name}`]);
}

/** Removes what an agent has left that was killed. */
export async function removeLeftSnapshots(
  run: RunSystemProgram,
  warn: (message: string) => void,
): Promise<void> {
  const groups = await readGroups(run);
  for (const { group, name } of groups?.logical ?? []) {
    if (!new RegExp(`^${PREFIX}[0-9a-f]{16}$`).test(name)) continue;
    await removeSnapshot(run, { group, name }).catch((error: unknown) => {
      warn(`The snapshot ${group}/${name} of an earlier backup could not be removed: ${String(error)}`);
    });
  }
}
