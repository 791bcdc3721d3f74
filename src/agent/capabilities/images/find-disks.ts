import { stat, access, readFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { EngineError, type MachineDescription } from '../../../engine/index.ts';
import { firmwareValue, IMAGE_DISKS_MAX, shortened } from '../../../protocol/index.ts';
import { osVersion } from '../../os/os-version.ts';
import { runSystemProgram } from '../../os/child-process.ts';

/** The disks of this machine, and files that hold a whole disk. */

const Number_ = z.coerce.number().int().nonnegative();
const Flag = z.union([z.boolean(), z.enum(['0', '1']).transform((text) => text === '1')]);
const Text = z.string().nullish();

/** One disk or partition as `lsblk` prints it. */
interface Listed {
  /** With its folder: the column PATH does not exist before util-linux 2.33. */
  name: string;
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

const COLUMNS = 'NAME,TYPE,SIZE,LOG-SEC,MAJ:MIN,MODEL,SERIAL,TRAN,RM,MOUNTPOINT';
/** Devices in memory, or composed of other disks, and the parts of flash memory that only firmware writes. */
const NOT_REAL = /^(zram|ram|loop|nbd|fd|sr|md|dm-|zd|mmcblk\d+(boot|rpmb))/;

/** A file system in use. Swap space does not count, because its content is not restored. */
export interface MountedVolume {
  path: string;
  /** The type that `lsblk` prints: `part`, `lvm`, `crypt`, and others. */
  type: string;
  mountPoint: string;
  sizeBytes: number;
}

export interface FoundDisk {
  /** The name in the image. */
  name: string;
  path: string;
  isFile: boolean;
  sizeBytes: number;
  sectorBytes: number;
  model: string | null;
  serial: string | null;
  /** Whether a part of it is in use, so that it may change while it is read. */
  isInUse: boolean;
  mounted: MountedVolume[];
  /** The devices of its partitions. */
  parts: string[];
  /** The device numbers of the disk and of everything on it: `8:1`. */
  numbers: string[];
}

export interface DiskChoice {
  /** Names as `lsblk` prints them, or absolute paths of files that contain a whole disk. */
  disks: 'all' | readonly string[];
  excludeDisks: readonly string[];
}

/** Throws SOURCE_UNREADABLE if a named disk does not exist, if none is left, or if an image cannot hold them all. */
export async function chooseDisks(choice: DiskChoice, run = runSystemProgram): Promise<FoundDisk[]> {
  const chosen = await wantedDisks(choice, run);
  if (chosen.length > IMAGE_DISKS_MAX) {
    // Check first: reading for hours would make an image that no server accepts.
    throw unreadable(
      `${chosen.length} disks are selected, and an image holds ${IMAGE_DISKS_MAX} at most. The first one that it cannot hold is ${chosen[IMAGE_DISKS_MAX]?.name}. Exclude some, and back them up by another configuration that names them.`,
    );
  }
  return chosen;
}

async function wantedDisks(
  { disks, excludeDisks }: DiskChoice,
  run: typeof runSystemProgram,
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
  const output = await run('lsblk', ['--json', '--bytes', '--paths', '--output', COLUMNS]);
  return parseDisks(output);
}

export function parseDisks(output: string): (FoundDisk & { isFixed: boolean })[] {
  const { blockdevices } = Listing.parse(JSON.parse(output));
  return blockdevices
    .filter(({ type, name, size }) => type === 'disk' && size > 0 && !NOT_REAL.test(deviceName(name)))
    .map((disk) => ({
      name: nameFor(deviceName(disk.name)),
      path: disk.name,
      isFile: false,
      sizeBytes: disk.size,
      sectorBytes: disk['log-sec'],
      model: disk.model?.trim() || null,
      serial: disk.serial?.trim() || null,
      isInUse: mountedOn(disk).length > 0,
      mounted: mountedOn(disk),
      parts: (disk.children ?? []).filter(({ type }) => type === 'part').map((each) => each.name),
      numbers: within(disk).map((each) => each['maj:min']),
      isFixed: !disk.rm && disk.tran !== 'usb',
    }));
}

/** Some controllers have a folder for their disks: `cciss/c0d0`. */
const deviceName = (file: string) => file.replace(/^\/dev\//, '');

const mountedOn = (disk: Listed): MountedVolume[] =>
  within(disk).flatMap(({ name: where, type, size, mountpoint }) =>
    typeof mountpoint === 'string' && mountpoint.startsWith('/')
      ? [{ path: where, type, mountPoint: mountpoint, sizeBytes: size }]
      : [],
  );

const within = (disk: Listed): Listed[] => [disk, ...(disk.children ?? []).flatMap(within)];

/** For example the disk file of a virtual machine. `undefined` if the file does not exist. */
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

/** A name that is valid in an archive. */
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

/** The description of the machine, without its disks. */

const DMI = '/sys/class/dmi/id';
const FSTAB_MAX = 60_000;

type Facts = Pick<
  MachineDescription,
  'machine' | 'system' | 'bootMode' | 'memoryBytes' | 'processors' | 'hardware' | 'fstab'
>;

/** @param isOwn  the disks are those of this machine; otherwise they are files, and their machine is unknown */
export async function describeThisMachine(host: string, isOwn: boolean): Promise<Facts> {
  if (!isOwn) {
    const unknown = { system: null, bootMode: null, memoryBytes: null, processors: null };
    return { machine: host, ...unknown, hardware: null, fstab: null };
  }
  const fstab = await readFile('/etc/fstab', 'utf8').catch(() => null);
  return {
    machine: host,
    system: shortened(await osVersion(), 255),
    bootMode: await bootMode(),
    memoryBytes: os.totalmem(),
    processors: Math.max(1, os.cpus().length),
    hardware: {
      vendor: await dmi('sys_vendor'),
      product: await dmi('product_name'),
      serial: await dmi('product_serial'),
      board: await dmi('board_name'),
    },
    fstab: fstab === null || fstab.length > FSTAB_MAX ? null : fstab,
  };
}

/** The firmware that has started this machine. */
export const bootMode = (): Promise<'uefi' | 'bios'> =>
  access('/sys/firmware/efi').then(
    () => 'uefi' as const,
    () => 'bios' as const,
  );

async function dmi(name: string): Promise<string | null> {
  const text = firmwareValue(await readFile(`${DMI}/${name}`, 'utf8').catch(() => ''));
  return text === undefined ? null : shortened(text, 255);
}
