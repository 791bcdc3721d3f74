import { omitUndefined } from '../../../platform/omit-undefined.ts';
import {
  BACKUP_TIMEOUT_SECONDS,
  type BackupRepositoryAccess,
  type ImageDetails,
} from '../../../protocol/index.ts';
import type { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { imageOf } from './estimate.ts';
import type { VmRestore } from './vm-restore.model.ts';

export type StartedVm = Pick<VmRestore, 'id' | 'vmName' | 'spec' | 'kind'>;

interface StartedFrom {
  snapshot: BackupSnapshot;
  repository: BackupRepositoryAccess;
  /** Of one of several machines: which, and where its archive is. */
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
