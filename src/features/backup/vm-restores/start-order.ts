import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { BACKUP_TIMEOUT_SECONDS, type BackupRepositoryAccess } from '../../../protocol/index.ts';
import type { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { imageOf } from './estimate.ts';
import type { VmRestore } from './vm-restore.model.ts';

export type StartedVm = Pick<VmRestore, 'id' | 'vmName' | 'spec' | 'kind'>;

/** The command that makes the machine of a snapshot, or starts it from there. */
export function startOrder(
  { id, vmName, spec, kind }: StartedVm,
  { snapshot, repository }: { snapshot: BackupSnapshot; repository: BackupRepositoryAccess },
) {
  const { memoryMb, cpuCount, diskSizeGb, format, start, network, targetPath } = spec;
  const payload = {
    restoreId: id,
    repository,
    snapshotId: snapshot.engineId,
    image: imageOf(snapshot),
    vmName,
    memoryMb,
    cpuCount,
    network,
    ...omitUndefined({ targetPath: targetPath ?? undefined }),
  };
  if (kind === 'instant_boot') return { type: 'backup.vm-instant-boot' as const, payload };
  const timeoutSeconds = BACKUP_TIMEOUT_SECONDS;
  const more = { ...omitUndefined({ diskSizeGb: diskSizeGb ?? undefined }), format, start, timeoutSeconds };
  return { type: 'backup.vm-from-image' as const, payload: { ...payload, ...more } };
}
