import { type FileHandle, mkdir, open, readFile, rm, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { EngineError, type MachineDescription } from '../../../engine/index.ts';
import { readFrom, type ReadAt, readDisk } from '../../os/read-disk.ts';
import { runSystemProgram, type RunSystemProgram } from '../../os/child-process.ts';
import type { FoundDisk, MountedVolume } from './find-disks.ts';
import {
  type LogicalVolume,
  type PhysicalVolume,
  createSnapshot,
  isWhole,
  type LvmSnapshot,
  readGroups,
  removeLeftSnapshots,
  removeSnapshot,
  snapshotExtents,
  type VolumeGroups,
} from './lvm.ts';
import { spawn } from 'node:child_process';
import { ownScope } from '../../os/process-group.ts';

/**
 * Gives each volume in use a single point in time: LVM volumes by snapshots, other small volumes, such as boot
 * partitions, by copies. The disks themselves are not changed.
 */
interface ConsistentSnapshot {
  consistency: MachineDescription['consistency'];
  /** Regions that are read from another source, by the path of the disk. */
  regions: ReadonlyMap<string, Region[]>;
  /** Throws SOURCE_UNREADABLE if a snapshot was too small for the changes during the backup. */
  confirm(): Promise<void>;
  release(): Promise<void>;
}

interface SnapshotParts {
  jobId: string;
  /** A private folder of the agent, for copies and for the records that a later agent needs to clean up. */
  folder: string;
  warn: (message: string) => void;
  run?: RunSystemProgram;
}

const COPIED_MAX = 2 * 1024 ** 3;
const HEAD_MAX = 16 * 1024 * 1024;
const KEEP_FREE = 0.5;

const spoolOf = (folder: string) => path.join(folder, 'image-volumes');

/** Removes copies and snapshots of an agent that was killed. */
export async function removeLeftoverSnapshots({
  folder,
  warn,
  run = runSystemProgram,
}: Omit<SnapshotParts, 'jobId'>) {
  await rm(spoolOf(folder), { recursive: true, force: true });
  await removeLeftSnapshots(run, warn);
}

export async function takeConsistentSnapshot(
  disks: readonly FoundDisk[],
  parts: SnapshotParts,
  signal: AbortSignal,
): Promise<ConsistentSnapshot> {
  const snapshot = new SnapshotOfDisks(parts, signal);
  try {
    await snapshot.take(disks);
    return snapshot;
  } catch (error) {
    await snapshot.release();
    throw error;
  }
}

class SnapshotOfDisks implements ConsistentSnapshot {
  consistency: MachineDescription['consistency'] = 'filesystem';
  readonly regions = new Map<string, Region[]>();
  readonly #parts: SnapshotParts;
  readonly #signal: AbortSignal;
  readonly #run: RunSystemProgram;
  readonly #snapshots: LvmSnapshot[] = [];
  readonly #handles: FileHandle[] = [];
  readonly #spool: string;

  constructor(parts: SnapshotParts, signal: AbortSignal) {
    this.#spool = path.join(spoolOf(parts.folder), parts.jobId);
    this.#parts = parts;
    this.#signal = signal;
    this.#run = parts.run ?? runSystemProgram;
  }

  async take(disks: readonly FoundDisk[]): Promise<void> {
    const inUse = disks.flatMap(({ mounted }) => mounted);
    if (inUse.length === 0) return;
    // A volume that cannot be frozen makes the rest pointless, so the copies come first.
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
        message: `The snapshot of a volume in ${snapshot.group} overflowed, because too much was written during the backup. Leave more room in this volume group, or back up when less is written.`,
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

  /** Returns whether all of them have a single point in time. */
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
      if (!(await copyFrozen({ ...volume, hasAgent }, file, parts))) return false;
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
    // The metadata of a group lists the snapshot as soon as it exists. The image uses the metadata from before.
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

/** `undefined` if one of the volumes in use cannot be found on the disks. */
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

/** Offset of the partition on its disk, in bytes. */
async function startOf(device: string): Promise<number | undefined> {
  const text = await readFile(`/sys/class/block/${path.basename(device)}/start`, 'utf8').catch(() => '');
  return /^\d+\s*$/.test(text) ? Number(text) * 512 : undefined;
}

/** A region of a disk that is read from another, frozen source. */
export interface Region {
  /** On the disk, in bytes. */
  start: number;
  length: number;
  read: ReadAt;
  /** In the source, in bytes. */
  from: number;
}

/** A disk with some regions replaced. Regions must not overlap. */
export function splice(read: ReadAt, regions: readonly Region[]): ReadAt {
  const sorted = [...regions].sort((one, other) => one.start - other.start);
  for (const [index, { start }] of sorted.entries()) {
    const before = sorted[index - 1];
    if (before !== undefined && before.start + before.length > start) throw new Error('regions overlap');
  }
  if (sorted.length === 0) return read;
  return async (offset, length) => {
    const parts: Buffer[] = [];
    for (let at = offset; at < offset + length; ) {
      const region = sorted.find((each) => each.start + each.length > at);
      const isWithin = region !== undefined && region.start <= at;
      const end = isWithin ? region.start + region.length : (region?.start ?? Number.POSITIVE_INFINITY);
      const wanted = Math.min(offset + length, end) - at;
      const bytes = isWithin
        ? await region.read(region.from + at - region.start, wanted)
        : await read(at, wanted);
      parts.push(bytes);
      at += bytes.length;
      if (bytes.length < wanted) break;
    }
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  };
}

/** A small volume in use that is copied while nothing is written to it. */

/** Enough for a gigabyte on a slow disk. No program may be blocked longer by a frozen file system. */
const FROZEN_MS = 20_000;
const TRIES = 3;
const ZEROS = Buffer.alloc(1024 * 1024);

interface VolumeInUse {
  /** The device: `/dev/sda1`. */
  path: string;
  mountPoint: string;
  sizeBytes: number;
}

/**
 * Copies the volume into a new file: with its file system frozen if that is possible, and otherwise between two checks
 * that no write happened in between. Returns whether the copy has a single point in time.
 * @param hasAgent  files of the agent lie on the volume: it is never frozen, because the agent could not thaw it
 */
export async function copyFrozen(
  volume: VolumeInUse & { hasAgent: boolean },
  file: string,
  { run, signal }: { run: RunSystemProgram; signal: AbortSignal },
): Promise<boolean> {
  const copy = () => copyVolume(volume, file, signal);
  // Drop the kernel's cache of the device, which may be older than what the file system has written.
  const forget = () => run('blockdev', ['--flushbufs', volume.path]);
  if (!volume.hasAgent) {
    const work = () => forget().then(copy);
    const frozen = await whileFrozen(volume.mountPoint, run, work).catch(() => 'unsupported' as const);
    signal.throwIfAborted();
    if (frozen !== 'unsupported') return frozen;
  }
  for (let round = 0; round < TRIES; round += 1) {
    await run('sync', ['--file-system', volume.mountPoint]);
    // Before the counter is read, because it makes the file system write.
    await forget();
    const before = await writesTo(volume.path);
    await copy();
    if (before !== undefined && before === (await writesTo(volume.path))) return true;
  }
  return false;
}

/**
 * Runs work while a file system is frozen. A watchdog process thaws it after a limit, even if this process is killed.
 * Returns whether it stayed frozen until the end of the work; throws if it cannot be frozen.
 */
export async function whileFrozen(
  mountPoint: string,
  run: RunSystemProgram,
  work: () => Promise<void>,
  frozenMs = FROZEN_MS,
): Promise<boolean> {
  const watchdog = await startWatchdog(mountPoint, frozenMs);
  try {
    await run('fsfreeze', ['--freeze', mountPoint]);
    await work();
  } finally {
    await run('fsfreeze', ['--unfreeze', mountPoint]).then(
      () => (watchdog.isNeeded = false),
      // The watchdog has thawed it, or it was never frozen.
      () => {},
    );
    watchdog.end();
  }
  return !watchdog.isNeeded;
}

/** For so many seconds after the limit the watchdog tries to thaw a file system that is not frozen. */
const LATE_FREEZE_SECONDS = 60;

/**
 * Runs in its own session, so that it outlives the agent. A busy machine may freeze the file system only after the limit,
 * so the watchdog tries for a while.
 */
async function startWatchdog(mountPoint: string, frozenMs: number) {
  const script =
    'sleep "$1"; n=0; until fsfreeze --unfreeze "$2" || [ $((n += 1)) -gt "$3" ]; do sleep 1; done';
  const limits = [String(frozenMs / 1000), mountPoint, String(LATE_FREEZE_SECONDS)];
  const shell = ['sh', '-c', script, 'sh', ...limits];
  const [program = 'sh', ...words] = [...(await ownScope('muster-thaw')), ...shell];
  const child = spawn(program, words, { detached: true, stdio: 'ignore', cwd: '/' });
  child.on('error', () => {});
  child.unref();
  const end = () => {
    try {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // The process has just ended.
    }
  };
  return { isNeeded: true, end };
}

async function copyVolume(
  { path: device, sizeBytes }: VolumeInUse,
  file: string,
  signal: AbortSignal,
): Promise<void> {
  const source = await open(device, 'r');
  let target: FileHandle | undefined;
  try {
    target = await open(file, 'w', 0o600);
    let at = 0;
    for await (const piece of readDisk({ read: readFrom(source), sizeBytes, empty: [] })) {
      signal.throwIfAborted();
      if (!piece.equals(ZEROS.subarray(0, piece.length))) await target.write(piece, 0, piece.length, at);
      at += piece.length;
    }
    await target.truncate(sizeBytes);
  } finally {
    await target?.close();
    await source.close();
  }
}

/** The kernel's count of writes to a device since the machine was started. */
async function writesTo(device: string): Promise<string | undefined> {
  const file = `/sys/class/block/${path.basename(device)}/stat`;
  const text = await readFile(file, 'utf8').catch(() => '');
  const [, , , , writes, , sectors, , inFlight] = text.trim().split(/\s+/);
  return inFlight === '0' && writes !== undefined ? `${writes} ${sectors}` : undefined;
}
