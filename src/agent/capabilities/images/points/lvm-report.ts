import { z } from 'zod';

/** What LVM says of its volumes: where the content of each lies on which disk. */

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
export const LVS = [
  ...REPORT,
  '--segments',
  '-o',
  'lv_name,vg_name,lv_attr,segtype,seg_start,seg_size,seg_pe_ranges,lv_path,lv_dm_path',
];
export const PVS = [...REPORT, '-o', 'pv_name,vg_name,pe_start,vg_extent_size,vg_free_count'];

export interface PhysicalVolume {
  /** A disk, or a partition of one. */
  path: string;
  group: string;
  /** Before it are the label and the description of the group. */
  extentsAt: number;
  extentBytes: number;
  /** Of the whole group. */
  freeExtents: number;
}

export interface Segment {
  /** In the volume, in bytes. */
  start: number;
  sizeBytes: number;
  /** Where it lies on a physical volume, in bytes from its beginning. */
  physical: string;
  at: number;
}

export interface LogicalVolume {
  group: string;
  name: string;
  /** As `lsblk` names it. */
  path: string;
  sizeBytes: number;
  /** `undefined` where it is not simply laid out one part after another: striped, mirrored, thin and cached ones. */
  segments: Segment[] | undefined;
}

/** Throws for what is no report of LVM. */
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
