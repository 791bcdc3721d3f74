import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { RunSystemProgram } from '../../os/child-process.ts';

/** Snapshots of volumes of LVM, which exist while a backup reads them. */

const PREFIX = 'muster-image-';
/** The changes during a backup must fit into the snapshot, or it becomes useless. */
const SHARE_OF_VOLUME = 0.15;
const LEAST_BYTES = 64 * 1024 * 1024;
const USUAL_LEAST_BYTES = 1024 * 1024 * 1024;
/** Leaves some extents free for other users of the group. */
const SHARE_OF_FREE = 0.8;

export interface VolumeGroups {
  physical: PhysicalVolume[];
  logical: LogicalVolume[];
}

/** `undefined` if LVM is not installed, or prints nothing that can be parsed. */
export async function readGroups(run: RunSystemProgram): Promise<VolumeGroups | undefined> {
  try {
    return parseReports(await run('lvs', LVS), await run('pvs', PVS));
  } catch {
    return undefined;
  }
}

/** The size of the snapshot of each volume; none for volumes whose group has no room. */
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
  /** The device to read. */
  path: string;
}

/** LVM freezes the file system for a moment, so its content is consistent. */
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

/** Whether all changes so far have fit into the snapshot. */
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

/** Removes snapshots of an agent that was killed. */
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

/** The LVM report: which parts of each volume lie on which disk. */

const Bytes = z.coerce.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);

const Segments = z.object({
  report: z.tuple([
    z.object({
      seg: z.array(
        z.object({
          lv_name: z.string(),
          vg_name: z.string(),
          lv_attr: z.string(),
          segtype: z.string(),
          seg_start: Bytes,
          seg_size: Bytes,
          seg_pe_ranges: z.string(),
          lv_path: z.string(),
          lv_dm_path: z.string(),
        }),
      ),
    }),
  ]),
});
const Places = z.object({
  report: z.tuple([
    z.object({
      pv: z.array(
        z.object({
          pv_name: z.string(),
          vg_name: z.string(),
          pe_start: Bytes,
          vg_extent_size: Bytes,
          vg_free_count: Bytes,
        }),
      ),
    }),
  ]),
});

const REPORT = ['--reportformat', 'json', '--units', 'b', '--nosuffix'];
const LVS = [
  ...REPORT,
  '--segments',
  '-o',
  'lv_name,vg_name,lv_attr,segtype,seg_start,seg_size,seg_pe_ranges,lv_path,lv_dm_path',
];
const PVS = [...REPORT, '-o', 'pv_name,vg_name,pe_start,vg_extent_size,vg_free_count'];

export interface PhysicalVolume {
  /** A disk, or a partition of one. */
  path: string;
  group: string;
  /** The label and the metadata of the group come before it. */
  extentsAt: number;
  extentBytes: number;
  /** Extent size of the group. */
  freeExtents: number;
}

interface Segment {
  /** In the volume, in bytes. */
  start: number;
  sizeBytes: number;
  /** On the physical volume, in bytes from its beginning. */
  physical: string;
  at: number;
}

export interface LogicalVolume {
  group: string;
  name: string;
  /** The name that `lsblk` prints. */
  path: string;
  sizeBytes: number;
  /** `undefined` if the volume is not linear: striped, mirrored, thin and cached ones. */
  segments: Segment[] | undefined;
}

/** Throws if the text is not a report of LVM. */
export function parseReports(
  segments: string,
  places: string,
): { physical: PhysicalVolume[]; logical: LogicalVolume[] } {
  const physical = Places.parse(JSON.parse(places)).report[0].pv.map((each) => ({
    path: each.pv_name,
    group: each.vg_name,
    extentsAt: each.pe_start,
    extentBytes: each.vg_extent_size,
    freeExtents: each.vg_free_count,
  }));
  const volumes = new Map<string, LogicalVolume>();
  for (const each of Segments.parse(JSON.parse(segments)).report[0].seg) {
    const known = volumes.get(each.lv_dm_path);
    const volume = known ?? {
      group: each.vg_name,
      name: each.lv_name,
      path: each.lv_dm_path,
      sizeBytes: 0,
      segments: [],
    };
    volumes.set(volume.path, volume);
    volume.sizeBytes += each.seg_size;
    const segment = each.segtype === 'linear' ? linearSegment(each, physical) : undefined;
    if (segment === undefined) volume.segments = undefined;
    else volume.segments?.push(segment);
  }
  return { physical, logical: [...volumes.values()] };
}

function linearSegment(
  { seg_pe_ranges, seg_start, seg_size }: { seg_pe_ranges: string; seg_start: number; seg_size: number },
  physical: readonly PhysicalVolume[],
): Segment | undefined {
  const [, path, first, last] = /^(\S+):(\d+)-(\d+)$/.exec(seg_pe_ranges) ?? [];
  const place = physical.find((each) => each.path === path);
  if (place === undefined || first === undefined || last === undefined) return undefined;
  if ((Number(last) - Number(first) + 1) * place.extentBytes !== seg_size) return undefined;
  const at = place.extentsAt + Number(first) * place.extentBytes;
  return { start: seg_start, sizeBytes: seg_size, physical: place.path, at };
}
