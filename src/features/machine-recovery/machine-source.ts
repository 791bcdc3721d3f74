import { imageDetailsOf, MACHINE_PATH, openMachineIn, type RepositoryReader } from '../../engine/index.ts';
import type { DetachedContext } from '../../platform/context.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import {
  BACKUP_TIMEOUT_SECONDS,
  type BackupRepositoryAccess,
  type ImageDetails,
} from '../../protocol/index.ts';
import {
  type BackupSnapshot,
  type RepositoryReaders,
  type RestoreSource,
  snapshotReading,
} from '../backup/index.ts';
import type { VmRestore } from './machine-recovery.model.ts';

// The memory and processors that a machine needs, by its snapshot. A device wrote that, so it counts within bounds only.

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
/** The memory of a machine whose image names none, and the least and most that is used without being asked for. */
const MEMORY_MIB = { usual: 2048, least: 512, most: 16_384 } as const;
const PROCESSORS = { usual: 2, most: 8 } as const;

/** Throws `conflict` for a snapshot that is not one of a whole machine. */
export function imageOf({ details }: Pick<BackupSnapshot, 'details'>): ImageDetails {
  if (details?.kind === 'image' && details.disks.length > 0) return details;
  throw new AppError(
    'conflict',
    'The snapshot is not one of a whole machine, so no virtual machine can be made of it.',
  );
}

export function specsOf({ memoryBytes, processors }: ImageDetails): { memoryMb: number; cpuCount: number } {
  const memory = memoryBytes === null ? MEMORY_MIB.usual : Math.round(memoryBytes / MIB);
  return {
    memoryMb: Math.min(MEMORY_MIB.most, Math.max(MEMORY_MIB.least, memory)),
    cpuCount: Math.min(PROCESSORS.most, Math.max(1, processors ?? PROCESSORS.usual)),
  };
}

export function estimateOf(image: ImageDetails, { sizeBytes }: Pick<BackupSnapshot, 'sizeBytes'>) {
  const bytes = image.disks.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const { system } = image;
  return {
    ...specsOf(image),
    diskSizeGb: Math.ceil(bytes / GIB),
    platform: platformOf(system),
    osVersion: system,
    bootMode: image.bootMode,
    disks: image.disks.map(({ name, sizeBytes }) => ({ name, sizeBytes })),
    consistency: image.consistency,
    storedBytes: sizeBytes === null ? null : Number(sizeBytes),
  };
}

function platformOf(system: string | null): 'linux' | 'windows' | null {
  if (system === null || system === '') return null;
  return /windows/i.test(system) ? 'windows' : 'linux';
}

// The machine in a snapshot that becomes a virtual machine.

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
  await ctx.withTenant(async (tenant) => assertIsOfMachines(await snapshotReading.findSnapshot(tenant, id)));
  const { reader, ...state } = await snapshotReading.openSnapshot(ctx, { id }, readers);
  const { snapshot } = state;
  const own = ownImageOf(snapshot, machine);
  if (own !== undefined) return { ...state, image: own, imagePath: MACHINE_PATH };
  const wanted = { machine, field: 'body.machine', signal };
  return { ...state, ...(await snapshotReading.mapEngineErrors(() => readPlace(reader, snapshot, wanted))) };
}

/** Reads from the store which of the machines of a snapshot is meant, and what it consists of. */
export async function readPlace(
  reader: RepositoryReader,
  snapshot: BackupSnapshot,
  wanted: { machine: string | undefined; field: string; signal: AbortSignal },
): Promise<MachinePlace> {
  const imagePath = await snapshotReading.imagePathIn(reader, snapshot, wanted);
  const opened = await reader.openContent(
    { snapshotId: snapshot.engineId, path: imagePath },
    { limits: { entries: 10, parts: PARTS_MAX }, signal: wanted.signal },
  );
  if (opened === 'too_large' || opened.type !== 'file') throw snapshotReading.noImage();
  const { description, disks } = await openMachineIn(opened.content);
  return { image: imageDetailsOf(description, disks), imagePath };
}

/** The details of a snapshot of one machine, as its device has reported them. */
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

export type StartedVm = Pick<VmRestore, 'id' | 'vmName' | 'spec' | 'kind'>;

interface StartedFrom {
  snapshot: BackupSnapshot;
  repository: BackupRepositoryAccess;
  /** For one of several machines: which one, and the path of its archive. */
  image?: ImageDetails;
  imagePath?: string;
}

/** The command that makes the machine of a snapshot, or starts it from there. */
export function startOrder(
  { id, vmName, spec, kind }: StartedVm,
  { snapshot, repository, image = imageOf(snapshot), imagePath }: StartedFrom,
) {
  const { memoryMb, cpuCount, diskSizeGb, grow, format, start, network, targetPath } = spec;
  const payload = {
    restoreId: id,
    repository,
    snapshotId: snapshot.engineId,
    image,
    vmName,
    memoryMb,
    cpuCount,
    network,
    ...omitUndefined({ imagePath, targetPath: targetPath ?? undefined }),
  };
  if (kind === 'instant_boot') return { type: 'backup.vm-instant-boot' as const, payload };
  const timeoutSeconds = BACKUP_TIMEOUT_SECONDS;
  const size = omitUndefined({ diskSizeGb: diskSizeGb ?? undefined, grow });
  const more = { ...size, format, start, timeoutSeconds };
  return { type: 'backup.vm-from-image' as const, payload: { ...payload, ...more } };
}
