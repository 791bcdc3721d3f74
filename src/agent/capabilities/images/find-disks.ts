import { stat } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { EngineError } from '../../../engine/index.ts';
import { runSystemProgram } from '../../os/processes/system-program.ts';

/** The disks of this machine, and files that hold a whole disk. */

const Number_ = z.coerce.number().int().nonnegative();
const Flag = z.union([z.boolean(), z.enum(['0', '1']).transform((text) => text === '1')]);
const Text = z.string().nullish();

/** What `lsblk` prints of a disk, and of what lies on it. */
interface Listed {
  name: string;
  path: string;
  type: string;
  size: number;
  'log-sec': number;
  'maj:min': string;
  model?: string | null | undefined;
  serial?: string | null | undefined;
  tran?: string | null | undefined;
  rm: boolean;
  mountpoint?: string | null | undefined;
  children?: Listed[] | undefined;
}

const Listed: z.ZodType<Listed> = z.lazy(() =>
  z.object({
    name: z.string(),
    path: z.string(),
    type: z.string(),
    size: Number_,
    'log-sec': Number_,
    'maj:min': z.string(),
    model: Text,
    serial: Text,
    tran: Text,
    rm: Flag,
    mountpoint: Text,
    children: z.array(Listed).optional(),
  }),
);
const Listing = z.object({ blockdevices: z.array(Listed) });

const COLUMNS = 'NAME,PATH,TYPE,SIZE,LOG-SEC,MAJ:MIN,MODEL,SERIAL,TRAN,RM,MOUNTPOINT';
/** In memory, or made of other disks. */
const NOT_REAL = /^(zram|ram|loop|nbd|fd|sr|md|dm-)/;

/** A file system in use. Space for swapping is none: nothing in it is wanted back. */
export interface MountedVolume {
  path: string;
  /** As `lsblk` has it: `part`, `lvm`, `crypt`, and others. */
  type: string;
  mountPoint: string;
  sizeBytes: number;
}

export interface FoundDisk {
  /** As it stands in the image. */
  name: string;
  path: string;
  isFile: boolean;
  sizeBytes: number;
  sectorBytes: number;
  model: string | null;
  serial: string | null;
  /** Whether something on it is in use, so that it may change while it is read. */
  isInUse: boolean;
  mounted: MountedVolume[];
  /** The devices of its partitions. */
  parts: string[];
  /** The numbers of the disk and of everything on it, as the system writes them: `8:1`. */
  numbers: string[];
}

export interface DiskChoice {
  /** Names as `lsblk` prints them, or absolute paths of files that hold a whole disk. */
  disks: 'all' | readonly string[];
  excludeDisks: readonly string[];
}

/** Throws SOURCE_UNREADABLE where a disk that is named is not there, or where none is left. */
export async function chooseDisks(
  { disks, excludeDisks }: DiskChoice,
  run = runSystemProgram,
): Promise<FoundDisk[]> {
  const isExcluded = ({ name, path: where }: FoundDisk) =>
    excludeDisks.includes(name) || excludeDisks.includes(where);
  if (disks === 'all') {
    const fixed = (await listDisks(run)).filter((disk) => disk.isFixed && !isExcluded(disk));
    if (fixed.length === 0) throw unreadable('This machine has no fixed disk that can be backed up.');
    return fixed;
  }
  const listed = disks.every((each) => path.isAbsolute(each) && !each.startsWith('/dev/'))
    ? []
    : await listDisks(run);
  const chosen: FoundDisk[] = [];
  for (const wanted of disks) {
    const found =
      listed.find(({ name, path: where }) => wanted === name || wanted === where) ?? (await diskFile(wanted));
    if (found === undefined) throw unreadable(`There is no disk ${wanted} on this machine.`);
    if (!isExcluded(found)) chosen.push(found);
  }
  if (chosen.length === 0) throw unreadable('Every disk that is named is also excluded.');
  return withDifferentNames(chosen);
}

export async function listDisks(run = runSystemProgram): Promise<(FoundDisk & { isFixed: boolean })[]> {
  const output = await run('lsblk', ['--json', '--bytes', '--output', COLUMNS]);
  return parseDisks(output);
}

export function parseDisks(output: string): (FoundDisk & { isFixed: boolean })[] {
  const { blockdevices } = Listing.parse(JSON.parse(output));
  return blockdevices
    .filter(({ type, name, size }) => type === 'disk' && size > 0 && !NOT_REAL.test(name))
    .map((disk) => ({
      name: nameFor(disk.name),
      path: disk.path,
      isFile: false,
      sizeBytes: disk.size,
      sectorBytes: disk['log-sec'],
      model: disk.model?.trim() || null,
      serial: disk.serial?.trim() || null,
      isInUse: mountedOn(disk).length > 0,
      mounted: mountedOn(disk),
      parts: (disk.children ?? []).filter(({ type }) => type === 'part').map((each) => each.path),
      numbers: within(disk).map((each) => each['maj:min']),
      isFixed: !disk.rm && disk.tran !== 'usb',
    }));
}

const mountedOn = (disk: Listed): MountedVolume[] =>
  within(disk).flatMap(({ path: where, type, size, mountpoint }) =>
    typeof mountpoint === 'string' && mountpoint.startsWith('/')
      ? [{ path: where, type, mountPoint: mountpoint, sizeBytes: size }]
      : [],
  );

const within = (disk: Listed): Listed[] => [disk, ...(disk.children ?? []).flatMap(within)];

/** A file of a virtual machine, for example. `undefined` where there is none. */
async function diskFile(file: string): Promise<FoundDisk | undefined> {
  if (!path.isAbsolute(file)) return undefined;
  const found = await stat(file).catch(() => undefined);
  if (found?.isFile() !== true || found.size === 0) return undefined;
  return {
    name: nameFor(path.basename(file).replace(/\.(raw|img|disk)$/i, '')),
    path: file,
    isFile: true,
    sizeBytes: found.size,
    sectorBytes: 512,
    model: null,
    serial: null,
    isInUse: false,
    mounted: [],
    parts: [],
    numbers: [],
  };
}

/** A name that can stand in an archive. */
function nameFor(name: string): string {
  const harmless = name
    .replace(/[^A-Za-z0-9._-]/g, '_')
    .replace(/^[._-]+/, '')
    .slice(0, 70);
  return harmless === '' ? 'disk' : harmless;
}

function withDifferentNames(disks: FoundDisk[]): FoundDisk[] {
  const names = new Set<string>();
  return disks.map((disk) => {
    let { name } = disk;
    for (let number = 2; names.has(name); number += 1) name = `${disk.name}-${number}`;
    names.add(name);
    return { ...disk, name };
  });
}

const unreadable = (message: string) => new EngineError('SOURCE_UNREADABLE', { message });
