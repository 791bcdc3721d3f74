import {
  type DiskPlace,
  dump,
  type Engine,
  EngineError,
  MACHINE_PATH,
  type MachineDescription,
  type ObjectSource,
  openMachineIn,
  openRepository,
  type Repository,
} from '../../../../engine/index.ts';

/** The disks of a snapshot, to be read from any byte on. */

export interface OpenedImage {
  description: MachineDescription;
  disks: DiskPlace[];
  /** From a byte of the disk to its end. */
  read(disk: DiskPlace, first: number): AsyncGenerator<Uint8Array, void>;
}

export interface ImagePlace {
  repository: Repository;
  source: ObjectSource;
  snapshotId: string;
  signal: AbortSignal;
  /** restic, where it is on this machine: it reads faster than we do, and only from the beginning. */
  restic?: { engine: Engine; options: object } | undefined;
}

/** What restic may read in vain before the first byte that is wanted. */
const SKIPPED_MAX = 64 * 1024 * 1024;
/** A disk of several terabytes. */
const PARTS_MAX = 8_000_000;

/** Throws `EngineError`: REPOSITORY_DAMAGED also for a snapshot of something else. */
export async function openImage(place: ImagePlace): Promise<OpenedImage> {
  const { repository, source, snapshotId, signal, restic } = place;
  const { password, keyHint } = repository;
  const reader = await openRepository(source, { password, ...(keyHint === undefined ? {} : { keyHint }) });
  const opened = await reader
    .openContent({ snapshotId, path: MACHINE_PATH }, { limits: { entries: 10, parts: PARTS_MAX }, signal })
    .catch((error: unknown) => {
      if (!(error instanceof EngineError) || error.code !== 'PATH_MISSING') throw error;
      throw new EngineError('PATH_MISSING', { message: 'The snapshot is no image of a machine.' });
    });
  if (opened === 'too_large' || opened.type !== 'file') {
    throw new EngineError('REPOSITORY_DAMAGED', { detail: `${MACHINE_PATH} is no file that can be read.` });
  }
  const { content } = opened;
  const { description, disks } = await openMachineIn(content);
  return {
    description,
    disks,
    read({ offset, sizeBytes }, from) {
      const first = offset + from;
      const last = offset + sizeBytes - 1;
      if (first > last) return nothing();
      if (restic === undefined || first > SKIPPED_MAX) return content.read({ first, last });
      const { engine, options } = restic;
      const bytes = dump(engine, repository, { snapshotId, path: MACHINE_PATH }, { ...options, signal });
      return between(bytes, first, last);
    },
  };
}

async function* nothing(): AsyncGenerator<Uint8Array, void> {
  // A disk of no bytes, or one that is there already.
}

/** Both ends are included. Leaving the loop ends restic. */
async function* between(
  bytes: AsyncIterable<unknown>,
  first: number,
  last: number,
): AsyncGenerator<Uint8Array, void> {
  let at = 0;
  for await (const piece of bytes) {
    if (!(piece instanceof Uint8Array)) continue;
    const end = at + piece.byteLength;
    if (end > first) yield piece.subarray(Math.max(0, first - at), Math.min(piece.byteLength, last + 1 - at));
    at = end;
    if (at > last) return;
  }
}
