import { imageDetailsOf, MACHINE_PATH, openMachineIn, type RepositoryReader } from '../../../engine/index.ts';
import type { DetachedContext } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import type { ImageDetails } from '../../../protocol/index.ts';
import { answeringFailures } from '../reading/engine-failures.ts';
import { imagePathIn, noImage } from '../reading/images/find-image.ts';
import { openSnapshot } from '../reading/open-snapshot.ts';
import type { RepositoryReaders } from '../reading/repository-readers.ts';
import type { RestoreSource } from '../restores/restore-access.ts';
import type { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { findSnapshot } from '../snapshots/snapshot.service.ts';

/** The machine of a snapshot that becomes a virtual machine. */

export interface MachinePlace {
  image: ImageDetails;
  /** Its archive in the snapshot. */
  imagePath: string;
}

export interface MachineSource extends RestoreSource, MachinePlace {}

export interface MachineQuery {
  snapshotId: string;
  machine?: string | undefined;
}

interface Reading {
  readers: RepositoryReaders;
  signal: AbortSignal;
}

/** A disk of several terabytes. */
const PARTS_MAX = 8_000_000;

/** Before the transaction, because it reads from the store. Throws `conflict` for a snapshot of something else. */
export async function openMachineSource(
  ctx: DetachedContext,
  { snapshotId: id, machine }: MachineQuery,
  { readers, signal }: Reading,
): Promise<MachineSource> {
  await ctx.withTenant(async (tenant) => assertIsOfMachines(await findSnapshot(tenant, id)));
  const { reader, ...state } = await openSnapshot(ctx, { id }, readers);
  const { snapshot } = state;
  const own = ownImageOf(snapshot, machine);
  if (own !== undefined) return { ...state, image: own, imagePath: MACHINE_PATH };
  const wanted = { machine, field: 'body.machine', signal };
  return { ...state, ...(await answeringFailures(() => readPlace(reader, snapshot, wanted))) };
}

/** Reads from the store which of the machines of a snapshot is meant, and what it consists of. */
export async function readPlace(
  reader: RepositoryReader,
  snapshot: BackupSnapshot,
  wanted: { machine: string | undefined; field: string; signal: AbortSignal },
): Promise<MachinePlace> {
  const imagePath = await imagePathIn(reader, snapshot, wanted);
  const opened = await reader.openContent(
    { snapshotId: snapshot.engineId, path: imagePath },
    { limits: { entries: 10, parts: PARTS_MAX }, signal: wanted.signal },
  );
  if (opened === 'too_large' || opened.type !== 'file') throw noImage();
  const { description, disks } = await openMachineIn(opened.content);
  return { image: imageDetailsOf(description, disks), imagePath };
}

/** What its device has reported of a snapshot of one machine. */
export function ownImageOf(
  { details }: Pick<BackupSnapshot, 'details'>,
  machine: string | undefined,
): ImageDetails | undefined {
  if (details?.kind !== 'image') return undefined;
  if (machine !== undefined) {
    throw invalid('body.machine', 'must be left out: the snapshot is of one machine');
  }
  return details;
}

export function assertIsOfMachines({ details }: Pick<BackupSnapshot, 'details'>): void {
  if (details?.kind === 'image' && details.disks.length > 0) return;
  if (details?.kind === 'machines' && details.hypervisor === 'kvm') return;
  throw new AppError(
    'conflict',
    'The snapshot is not one of a whole machine, so no virtual machine can be made of it.',
  );
}
