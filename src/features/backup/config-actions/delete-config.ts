import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { assertManageable } from '../../organizations/index.ts';
import { BackupConfig } from '../configs/config.model.ts';
import { readConfig } from '../configs/config.service.ts';
import { BackupJob } from '../jobs/job.model.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import type { DeleteConfigQuery } from './action.schema.ts';

/** Repositories and their snapshots stay, without a configuration. */
export async function deleteConfig(ctx: Context, id: string, { keepSnapshots = false }: DeleteConfigQuery) {
  const config = await readConfig(ctx, id);
  await assertManageable(ctx, config.orgId);
  // Nobody adds or begins a job meanwhile.
  await BackupConfig.query(ctx.tx).findById(id).forUpdate();
  const snapshots = await BackupSnapshot.query(ctx.tx)
    .where('config_id', id)
    .whereNull('removed_at')
    .resultSize();
  if (snapshots > 0 && !keepSnapshots) {
    throw new AppError('conflict', 'Snapshots of this backup configuration are held.', {
      details: { snapshots },
    });
  }
  const open = () => BackupJob.query(ctx.tx).where('config_id', id).whereNull('finished_at');
  if ((await open().whereNotNull('command_id').resultSize()) > 0) {
    throw new AppError('conflict', 'Backups with this configuration are running.');
  }
  const at = clock.date();
  await open().patch({ status: 'cancelled', cancelRequestedAt: at, finishedAt: at });
  await BackupRepository.query(ctx.tx).where('config_id', id).patch({ configId: null });
  await BackupConfig.query(ctx.tx).deleteById(id);
  return { success: true as const, keptSnapshots: snapshots, config };
}
