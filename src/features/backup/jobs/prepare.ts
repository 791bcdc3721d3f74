import { clock } from '../../../clock.ts';
import { withSystem, type Tx } from '../../../platform/db/transaction.ts';
import { BackupConfig } from '../configs/config.model.ts';
import { EncryptionKey } from '../keys/key.model.ts';
import { makeRepository, type OwnAccessParts } from '../access/make-repository.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { createRepository } from '../repositories/repository.service.ts';
import { BackupJob } from './job.model.ts';

/**
 * Makes the repository of a job, which restic can open afterwards. The server does it for its own store, because a device
 * may write neither keys nor the configuration of a repository there; elsewhere the device does it with its first backup.
 */
export async function prepareRepository(parts: OwnAccessParts, jobId: string): Promise<void> {
  const repository = await withSystem(parts.db, 'make the repository of a backup', (tx) =>
    repositoryOf(tx, jobId),
  );
  if (repository === undefined || repository.initializedAt !== null) return;
  const engineKeyId =
    repository.provider === 'server' ? await makeRepository(parts, repository, { jobId }) : null;
  await withSystem(parts.db, 'note that a repository can be opened', (tx) =>
    BackupRepository.query(tx)
      .findById(repository.id)
      .whereNull('initialized_at')
      .patch({ engineKeyId, initializedAt: clock.date() }),
  );
}

async function repositoryOf(tx: Tx, jobId: string): Promise<BackupRepository | undefined> {
  const job = await BackupJob.query(tx).findById(jobId).whereNull('finished_at').forNoKeyUpdate();
  if (job === undefined || job.configId === null) return undefined;
  const { orgId, deviceId, configId } = job;
  const known = await BackupRepository.query(tx).findOne({ device_id: deviceId, config_id: configId });
  if (known !== undefined) return known;
  const config = await BackupConfig.query(tx).findById(configId);
  if (config === undefined) return undefined;
  const key = await EncryptionKey.query(tx).findById(config.encryptionKeyId).throwIfNotFound();
  return createRepository(tx, {
    orgId,
    deviceId,
    configId,
    provider: config.provider,
    encryptionKeyId: key.id,
    keyVersion: key.version,
  });
}
