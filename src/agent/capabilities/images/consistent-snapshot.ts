import { type FileHandle, mkdir, open, readFile, rm, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { EngineError, type MachineDescription } from '../../../../engine/index.ts';
import { readFrom } from '../../../os/partitions/read-at.ts';
import { runSystemProgram, type RunSystemProgram } from '../../../os/processes/system-program.ts';
import type { FoundDisk, MountedVolume } from '../find-disks.ts';
import type { LogicalVolume, PhysicalVolume } from './lvm-report.ts';
import {
  createSnapshot,
  isWhole,
  type LvmSnapshot,
  readGroups,
  removeLeftSnapshots,
  removeSnapshot,
  snapshotExtents,
  type VolumeGroups,
} from './lvm-snapshots.ts';
import type { Region } from './splice.ts';
import { copyStill } from './still-copy.ts';

/**
 * Disks in use as they were at one moment for each of their volumes: volumes of LVM by snapshots, small other ones, such as
 * those that machines start from, by copies. The disks themselves stay as they are.
 */
export interface ConsistentPoint {
  consistency: MachineDescription['consistency'];
  /** What is read from elsewhere, by the path of the disk. */
  regions: ReadonlyMap<string, Region[]>;
  /** Throws SOURCE_UNREADABLE where a snapshot was too small for what has changed meanwhile. */
  confirm(): Promise<void>;
  release(): Promise<void>;
}

export interface PointParts {
  jobId: string;
  /** A private folder of the agent, for copies and for what the next agent has to clean up. */
  folder: string;
  warn: (message: string) => void;
  run?: RunSystemProgram;
}

const COPIED_MAX = 2 * 1024 ** 3;
const HEAD_MAX = 16 * 1024 * 1024;
const KEEP_FREE = 0.5;

const spoolOf = (folder: string) => path.join(folder, 'image-volumes');

/** Removes copies and snapshots that an agent has left that was killed. */
export async function clearPoints({ folder, warn, run = runSystemProgram }: Omit<PointParts, 'jobId'>) {
  await rm(spoolOf(folder), { recursive: true, force: true });
  await removeLeftSnapshots(run, warn);
}

export async function takePoint(
  disks: readonly FoundDisk[],
  parts: PointParts,
  signal: AbortSignal,
): Promise<ConsistentPoint> {
  const point = new Point(parts, signal);
  try {
    await point.take(disks);
    return point;
  } catch (error) {
    await point.release();
    throw error;
  }
}

class Point implements ConsistentPoint {
  consistency: MachineDescription['consistency'] = 'filesystem';
  readonly regions = new Map<string, Region[]>();
  readonly #parts: PointParts;
  readonly #signal: AbortSignal;
  readonly #run: RunSystemProgram;
  readonly #snapshots: LvmSnapshot[] = [];
  readonly #handles: FileHandle[] = [];
  readonly #spool: string;

  constructor(parts: PointParts, signal: AbortSignal) {
    this.#spool = path.join(spoolOf(parts.folder), parts.jobId);
    this.#parts = parts;
    this.#signal = signal;
    this.#run = parts.run ?? runSystemProgram;
  }

  async take(disks: readonly FoundDisk[]): Promise<void> {
    const inUse = disks.flatMap(({ mounted }) => mounted);
    if (inUse.length === 0) return;
    // What has no point in time makes all of it worthless, so it is tried first.
    const plain = disks.flatMap((disk) =>
      disk.mounted.filter(({ type }) => type !== 'lvm').map((volume) => ({ disk, volume })),
    );
    const groups = inUse.some(({ type }) => type === 'lvm') ? await readGroups(this.#run) : undefined;
    const logical = logicalInUse(inUse, groups);
    const isPossible =
      logical !== undefined &&
      plain.every(({ volume }) => volume.type === 'part') &&
      plain.reduce((sum, { volume }) => sum + volume.sizeBytes, 0) <= COPIED_MAX;
    if (!isPossible || !(await this.#copyAll(plain))) return this.#giveUp();
    if (groups !== undefined && !(await this.#snapshotAll(disks, groups, logical))) await this.#giveUp();
  }

  async confirm(): Promise<void> {
    for (const snapshot of this.#snapshots) {
      if (await isWhole(this.#run, snapshot)) continue;
      throw new EngineError('SOURCE_UNREADABLE', {
        message: `More was written than the snapshot of a volume of ${snapshot.group} could hold. Leave more room in this volume group, or back up when less is written.`,
      });
    }
  }

  async release(): Promise<void> {
    for (const handle of this.#handles.splice(0)) await handle.close().catch(() => {});
    for (const snapshot of this.#snapshots.splice(0)) {
      await removeSnapshot(this.#run, snapshot).catch((error: unknown) => {
        this.#parts.warn(
          `The snapshot ${snapshot.group}/${snapshot.name} stays until the next backup: ${String(error)}`,
        );
      });
    }
    await rm(this.#spool, { recursive: true, force: true });
  }

  async #giveUp(): Promise<void> {
    await this.release();
    this.regions.clear();
    this.consistency = 'none';
  }

  /** Returns whether all of them stood still. */
  async #copyAll(volumes: readonly { disk: FoundDisk; volume: MountedVolume }[]): Promise<boolean> {
    if (volumes.length === 0) return true;
    await mkdir(this.#spool, { recursive: true, mode: 0o700 });
    const own = await stat(this.#spool);
    const { bavail, bsize } = await statfs(this.#spool);
    const needed = volumes.reduce((sum, { volume }) => sum + volume.sizeBytes, 0);
    if (needed > bavail * bsize * KEEP_FREE) return false;
    for (const [index, { disk, volume }] of volumes.entries()) {
      const start = await startOf(volume.path);
      if (start === undefined) return false;
      const file = path.join(this.#spool, `volume-${index}`);
      const hasAgent = volume.mountPoint === '/' || (await stat(volume.mountPoint)).dev === own.dev;
      const parts = { run: this.#run, signal: this.#signal };
      if (!(await copyStill({ ...volume, hasAgent }, file, parts))) return false;
      await this.#add(disk, { start, length: volume.sizeBytes, from: 0 }, file);
    }
    return true;
  }

  async #snapshotAll(
    disks: readonly FoundDisk[],
    groups: VolumeGroups,
    logical: readonly LogicalVolume[],
  ): Promise<boolean> {
    const extents = snapshotExtents(logical, groups.physical);
    if (logical.some((volume) => !extents.has(volume))) return false;
    const placed = new Map<string, { disk: FoundDisk; start: number }>();
    for (const place of groups.physical) {
      const disk = disks.find(({ path: each, parts }) => each === place.path || parts.includes(place.path));
      const start = disk?.path === place.path ? 0 : await startOf(place.path);
      if (disk !== undefined && start !== undefined) placed.set(place.path, { disk, start });
    }
    const isPlaced = logical.every(({ segments }) => segments?.every((each) => placed.has(each.physical)));
    if (!isPlaced) return false;
    // The description of a group names the snapshot as soon as there is one. The image has the description from before.
    for (const place of groups.physical) {
      const found = placed.get(place.path);
      if (found === undefined || !logical.some(({ group }) => group === place.group)) continue;
      if (!(await this.#keepHead(place, found))) return false;
    }
    for (const volume of logical) {
      this.#signal.throwIfAborted();
      const order = { extents: extents.get(volume) ?? 0, jobId: this.#parts.jobId };
      const snapshot = await createSnapshot(this.#run, volume, order);
      this.#snapshots.push(snapshot);
      for (const segment of volume.segments ?? []) {
        const found = placed.get(segment.physical);
        if (found === undefined) return false;
        const region = { start: found.start + segment.at, length: segment.sizeBytes, from: segment.start };
        await this.#add(found.disk, region, snapshot.path);
      }
    }
    return true;
  }

  async #keepHead(
    { path: device, extentsAt }: PhysicalVolume,
    { disk, start }: { disk: FoundDisk; start: number },
  ): Promise<boolean> {
    if (extentsAt > HEAD_MAX) return false;
    const handle = await open(device);
    try {
      const head = await readFrom(handle)(0, extentsAt);
      const read = async (offset: number, length: number) => head.subarray(offset, offset + length);
      this.#put(disk, { start, length: head.length, from: 0, read });
      return head.length === extentsAt;
    } finally {
      await handle.close();
    }
  }

  async #add(disk: FoundDisk, region: Omit<Region, 'read'>, file: string): Promise<void> {
    const handle = await open(file);
    this.#handles.push(handle);
    this.#put(disk, { ...region, read: readFrom(handle) });
  }

  #put(disk: FoundDisk, region: Region): void {
    this.regions.set(disk.path, [...(this.regions.get(disk.path) ?? []), region]);
  }
}

/** `undefined` where one of those in use cannot be found on the disks. */
function logicalInUse(
  inUse: readonly MountedVolume[],
  groups: VolumeGroups | undefined,
): LogicalVolume[] | undefined {
  const found: LogicalVolume[] = [];
  for (const { path: wanted } of inUse.filter(({ type }) => type === 'lvm')) {
    const volume = groups?.logical.find((each) => each.path === wanted);
    if (volume?.segments === undefined) return undefined;
    if (!found.includes(volume)) found.push(volume);
  }
  return found;
}

/** Of a partition on its disk, in bytes. */
async function startOf(device: string): Promise<number | undefined> {
  const text = await readFile(`/sys/class/block/${path.basename(device)}/start`, 'utf8').catch(() => '');
  return /^\d+\s*$/.test(text) ? Number(text) * 512 : undefined;
}
