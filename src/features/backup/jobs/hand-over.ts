import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS } from '../../../protocol/index.ts';
import { type AddedCommand, addServerCommand } from '../../commands/index.ts';
import { DeviceModel } from '../../devices/index.ts';
import { BackupConfig } from '../configs/config.model.ts';
import { secretOf } from '../configs/provider.ts';
import { accessOfDevice } from '../access/device-access.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { endCredential } from '../store/records/credentials.ts';
import { SOURCE_WORK } from '../sources/index.ts';
import { BackupJob } from './job.model.ts';
import { failJob } from './job-end.ts';

/** Gives a backup job to its device, as a command of the ledger. */

/** How long the command waits to be sent. A job whose command was not sent waits for its device again. */
const TTL_SECONDS = 900;
/** Of the credential. It has some time more than the device, for the result, which ends it. */
const LIFETIME_SECONDS = TTL_SECONDS + BACKUP_TIMEOUT_SECONDS + 1800;

/** What became of a job that was due: given to the device, ended, or left for the next time. */
export type HandOver = { command: AddedCommand } | 'failed' | 'waits';

export async function handOver(tx: Tx, jobId: string, secrets: Sealer): Promise<HandOver> {
  const job = await BackupJob.query(tx)
    .findById(jobId)
    .whereNull('command_id')
    .whereNull('finished_at')
    .forUpdate()
    .skipLocked();
  if (job === undefined) return 'waits';
  const config =
    job.configId === null ? undefined : await BackupConfig.query(tx).findById(job.configId).forShare();
  const device = await DeviceModel.query(tx).findById(job.deviceId);
  if (device === undefined || config?.orgId !== job.orgId) {
    await failJob(tx, job, 'CONFIG_MISSING', 'The configuration of the backup was deleted.');
    return 'failed';
  }
  const sources = job.sources ?? config.sources;
  const work = SOURCE_WORK[sources.kind];
  if (!work.systems(sources).includes(device.osType)) {
    await failJob(tx, job, 'NO_SOURCES', work.refusal(device.osType));
    return 'failed';
  }
  const repository = await BackupRepository.query(tx).findOne({
    device_id: job.deviceId,
    config_id: config.id,
  });
  if (repository === undefined || repository.initializedAt === null) return 'waits';
  const access = await accessOfDevice(
    tx,
    {
      repository,
      role: 'device',
      jobId: job.id,
      expiresAt: new Date(clock.now() + LIFETIME_SECONDS * 1000),
      elsewhere: async () => ({
        details: config.details,
        secret: secretOf(secrets, config),
        isNew: (await BackupSnapshot.query(tx).findOne({ repository_id: repository.id })) === undefined,
      }),
    },
    secrets,
  );
  if (access === undefined) return 'waits';
  const shared = {
    jobId: job.id,
    repository: access.repository,
    host: device.hostname,
    ...omitUndefined(config.limits),
    timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
  };
  const handed = await work.toCommand(tx, {
    sources,
    repositoryId: repository.id,
    device,
    wantedType: job.wantedType,
    shared,
  });
  if ('refusal' in handed) {
    const { code, message } = handed.refusal;
    if (access.credentialId !== null) await endCredential(tx, access.credentialId);
    await failJob(tx, job, code, message);
    return 'failed';
  }
  const { chosen, ...order } = handed;
  const command = await addServerCommand(
    tx,
    { id: job.deviceId, orgId: job.orgId },
    {
      ...order,
      ttlSeconds: TTL_SECONDS,
      timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      secrets: { values: access.values, sealer: secrets },
      createdBy: job.createdBy,
    },
  );
  await job.$query(tx).patch({
    commandId: command.id,
    credentialId: access.credentialId,
    repositoryId: repository.id,
    ...chosen,
  });
  return { command };
}
