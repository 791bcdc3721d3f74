import { stat, type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import {
  EngineError,
  type MachineDescription,
  type Repository,
  type MachineDisk,
} from '../../../engine/index.ts';
import { type CommandOutput, type CommandPayload, NAMED_PATHS_MAX } from '../../../protocol/index.ts';
import { type BackupParts, STOP_MS } from '../../repository/local-engine.ts';
import { sourceOf } from '../../repository/repository-source.ts';
import { withRepository } from '../../repository/repository-work.ts';
import { storeMachine } from '../../repository/store-machine.ts';
import type { DurableContext, DurableHandlers } from '../../work/handler.ts';
import {
  removeLeftoverSnapshots,
  takeConsistentSnapshot,
  type Region,
  splice,
} from './consistent-snapshot.ts';
import { describeThisMachine, chooseDisks, type FoundDisk } from './find-disks.ts';
import { openImage, diskOf, restoreDisk } from './restore-disk.ts';
import { constants } from 'node:fs';
import { hasCode } from '../../os/files/private-file.ts';
import { describeTable, describeVolumes } from '../../os/partition-tables.ts';
import { streamLines, findProgram, runSystemProgram } from '../../os/child-process.ts';
import { type Extent, parseFreeBlocks, readFrom, readDisk } from '../../os/read-disk.ts';

type BackupOutput = CommandOutput<'backup.image'>;

/** Makes one snapshot of whole disks, in the form of docs/decisions/machine-images.md. */
function runImageBackup(parts: BackupParts) {
  const isCleared = removeLeftoverSnapshots(parts).catch((error: unknown) => {
    parts.warn(`The leftovers of an earlier image backup could not be removed: ${String(error)}`);
  });
  return { stopMs: STOP_MS, run: imageBackup(parts, isCleared) };
}

const imageBackup =
  (parts: BackupParts, isCleared: Promise<void>) =>
  (payload: CommandPayload<'backup.image'>, context: DurableContext<'backup.image'>): Promise<BackupOutput> =>
    withRepository(parts, { payload, context }, async (use) => {
      await isCleared;
      const { repository, options } = use;
      const { jobId, host, disks, excludeDisks } = payload;
      const takenAt = clock.date().toISOString();
      const chosen = await chooseDisks({ disks, excludeDisks });
      await assertElsewhere(repository, chosen);
      const opened: OpenedDisk[] = [];
      context.progress({ phase: 'preparing' });
      const point = await takeConsistentSnapshot(chosen, { ...parts, jobId }, options.signal);
      try {
        for (const disk of chosen) {
          opened.push(await openDisk(disk, options.signal, point.regions.get(disk.path)));
        }
        const machine = await describe({ host, takenAt, consistency: point.consistency }, chosen, opened);
        return await storeMachine(use, payload, {
          machine,
          contentOf: ({ name }) => diskNamed(opened, name).content(),
          confirm: async () => {
            for (const disk of opened) await disk.confirm();
            await point.confirm();
          },
          onProgress: context.progress,
        });
      } finally {
        for (const disk of opened) await disk.close();
        await point.release();
      }
    });

async function describe(
  { host, takenAt, consistency }: Pick<MachineDescription, 'takenAt' | 'consistency'> & { host: string },
  chosen: readonly FoundDisk[],
  opened: readonly OpenedDisk[],
): Promise<MachineDescription> {
  const isOwn = chosen.some(({ isFile }) => !isFile);
  const facts = await describeThisMachine(host, isOwn);
  return {
    format: 'muster-machine',
    version: 1,
    source: 'disk',
    takenAt,
    ...facts,
    bootMode: facts.bootMode ?? bootModeOf(opened),
    consistency,
    disks: opened.map(({ description }) => description),
  };
}

const EFI_SYSTEM = 'C12A7328-F81F-11D2-BA4B-00A0C93EC93B';

/** Derived from the content of the disks. Null if they start in both ways, or in none. */
function bootModeOf(disks: readonly OpenedDisk[]): MachineDescription['bootMode'] {
  const hasEfi = disks.some(({ description }) =>
    description.partitionTable?.partitions.some(({ type }) => type === EFI_SYSTEM || type === 'ef'),
  );
  const hasBios = disks.some(({ hasBootCode }) => hasBootCode);
  if (hasEfi === hasBios) return null;
  return hasEfi ? 'uefi' : 'bios';
}

function diskNamed(disks: readonly OpenedDisk[], name: string): OpenedDisk {
  const found = disks.find(({ description }) => description.name === name);
  if (found === undefined) throw new Error(`no disk ${name} was opened`);
  return found;
}

/** A repository on the disk that is being read would be backed up into itself, and grow. */
async function assertElsewhere({ destination }: Repository, disks: readonly FoundDisk[]): Promise<void> {
  if (destination.type !== 'local') return;
  // A missing folder is reported by restic.
  const where = await stat(destination.path, { bigint: true }).catch(() => undefined);
  if (where === undefined) return;
  const { dev } = where;
  const number = `${(dev >> 8n) & 0xfffn}:${(dev & 0xffn) | ((dev >> 12n) & 0xfff00n)}`;
  const found = disks.find(({ numbers }) => numbers.includes(number));
  if (found === undefined) return;
  throw new EngineError('SOURCE_UNREADABLE', {
    message: `The destination of the backup lies on ${found.name}, which is to be backed up. Choose another one.`,
  });
}

/** The commands for images of whole disks. Only Linux supports them. */
export const imageHandlers = (parts: BackupParts): DurableHandlers =>
  process.platform === 'linux'
    ? { 'backup.image': runImageBackup(parts), 'backup.image-restore': runImageRestore(parts) }
    : {};

type RestoreOutput = CommandOutput<'backup.image-restore'>;

/**
 * Writes one disk of an image to a file or a disk of this machine. An interrupted restore resumes when it is run
 * again.
 */
const runImageRestore = (parts: BackupParts) => ({
  stopMs: STOP_MS,
  run: (
    payload: CommandPayload<'backup.image-restore'>,
    context: DurableContext<'backup.image-restore'>,
  ): Promise<RestoreOutput> =>
    withRepository(parts, { payload, context }, async ({ engine, repository, options }) => {
      const { restoreId, snapshotId, targetPath, overwrite, grow } = payload;
      const { signal } = options;
      const startedAt = clock.monotonic();
      const source = sourceOf(repository, parts.network, signal);
      const restic = { engine, options };
      const image = await openImage({ repository, source, snapshotId, signal, restic });
      const { disk, target, bytes, checks, sha256 } = await restoreDisk({
        image,
        snapshotId,
        disk: diskOf(image, payload.disk),
        target: targetPath,
        mayOverwrite: overwrite === 'always',
        keepsSize: false,
        grow,
        journalFile: path.join(parts.folder, 'images', `${restoreId}.journal`),
        forbidden: parts.dataDir,
        signal,
        onProgress: (phase, done, total) =>
          context.progress({
            phase,
            done,
            total,
            percent: total === 0 ? 100 : Math.floor((1000 * done) / total) / 10,
          }),
      });
      const failed = checks.filter(({ ok }) => !ok);
      return {
        status: failed.length === 0 ? 'completed' : 'partial',
        targetPath: target,
        filesRestored: 1,
        bytesRestored: bytes,
        filesSkipped: 0,
        seconds: (clock.monotonic() - startedAt) / 1000,
        failed: {
          count: failed.length,
          paths: failed
            .slice(0, NAMED_PATHS_MAX)
            .map(({ name, message = '' }) => ({ path: `${disk}: ${name}`, message })),
        },
        sha256,
      };
    }),
});

/** Disks that are open, with what is known of their content. */

interface OpenedDisk {
  description: MachineDisk;
  /** Whether the first sector contains a boot program for a BIOS. */
  hasBootCode: boolean;
  content(): AsyncGenerator<Buffer, void>;
  /** Rejects if a file was written to after it was opened. */
  confirm(): Promise<void>;
  close(): Promise<void>;
}

/**
 * On a disk in use, free blocks are read too: a free block may be in use a moment later.
 * @param regions  parts of the disk that are read from another source
 */
export async function openDisk(
  disk: FoundDisk,
  signal: AbortSignal,
  regions: readonly Region[] = [],
): Promise<OpenedDisk> {
  const { path, name, sizeBytes, sectorBytes, model, serial } = disk;
  const handle = await open(path, constants.O_RDONLY).catch((error: unknown) => {
    const why =
      hasCode(error, 'EACCES') || hasCode(error, 'EPERM') ? 'The agent may not read' : 'There is no';
    throw new EngineError('SOURCE_UNREADABLE', { message: `${why} disk ${path}.`, cause: error });
  });
  try {
    const before = disk.isFile ? await stateOf(path) : undefined;
    if (!disk.isFile) await forgetWhatWasRead(path);
    const read = splice(readFrom(handle), regions);
    const partitionTable = (await describeTable(read, sectorBytes)) ?? null;
    const volumes = await describeVolumes(read, { sizeBytes, partitionTable });
    const empty: Extent[] = [];
    for (const volume of disk.isInUse ? [] : volumes) {
      const free = await emptyParts(disk, volume, signal);
      if (free === undefined) continue;
      volume.content = volume.type === 'swap' ? 'header' : 'allocated';
      empty.push(...free);
    }
    const record = await read(0, 440);
    const holes = apart(empty);
    const contentBytes = holes.reduce((left, { start, end }) => left - (end - start), sizeBytes);
    return {
      description: { name, sizeBytes, sectorBytes, model, serial, partitionTable, volumes, contentBytes },
      hasBootCode: record.some((byte) => byte !== 0),
      content: () => readDisk({ read, sizeBytes, empty: holes }),
      async confirm() {
        if (before !== undefined && (await stateOf(path)) !== before) {
          throw new EngineError('SOURCE_UNREADABLE', {
            message: `The file ${path} was written to while it was read. Stop what uses it.`,
          });
        }
      },
      close: () => closeQuietly(handle),
    };
  } catch (error) {
    await closeQuietly(handle);
    throw error;
  }
}

/**
 * The kernel caches earlier reads of the disk, while a file system writes past this cache: without this, the image of
 * a disk in use would contain old content.
 */
const forgetWhatWasRead = (device: string) =>
  runSystemProgram('blockdev', ['--flushbufs', device]).catch(() => {});

/** A page with the signature, the name and the size. The rest need not be restored. */
const SWAP_HEAD = 64 * 1024;

async function emptyParts(
  disk: FoundDisk,
  { type, offset, sizeBytes }: MachineDisk['volumes'][number],
  signal: AbortSignal,
): Promise<Extent[] | undefined> {
  if (type === 'swap') return [{ start: offset + Math.min(SWAP_HEAD, sizeBytes), end: offset + sizeBytes }];
  // The program parses text after a question mark as options.
  if (type !== 'ext' || disk.path.includes('?')) return undefined;
  const program = await findProgram(['dumpe2fs'], `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`);
  if (program === undefined) return undefined;
  const lines = streamLines(program, [`${disk.path}?offset=${offset}`], { signal, maxLineLength: 4_000_000 });
  try {
    const found = await parseFreeBlocks(lines);
    const isWithin = (found?.free.at(-1)?.end ?? 0) <= sizeBytes;
    return isWithin
      ? found?.free.map(({ start, end }) => ({ start: offset + start, end: offset + end }))
      : undefined;
  } catch {
    signal.throwIfAborted();
    // A partition that the program cannot read is backed up whole.
    return undefined;
  }
}

/** Ascending. If partitions overlap, nothing is left out. */
function apart(extents: readonly Extent[]): Extent[] {
  const sorted = [...extents].sort((one, other) => one.start - other.start);
  const overlap = sorted.some(({ start }, index) => start < (sorted[index - 1]?.end ?? 0));
  return overlap ? [] : sorted;
}

async function stateOf(file: string): Promise<string> {
  const { size, mtimeNs } = await stat(file, { bigint: true });
  return `${size} ${mtimeNs}`;
}

const closeQuietly = (handle: FileHandle) => handle.close().catch(() => {});
