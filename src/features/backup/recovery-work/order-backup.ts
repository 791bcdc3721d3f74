import type { Tx } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { BackupConfig } from '../configs/config.model.ts';
import { HAND_OVER } from '../jobs/background.ts';
import { BackupJob } from '../jobs/job.model.ts';
import type { WorkDevice } from './order-files.ts';
import { WorkRefused } from './refusal.ts';

export interface BackupOrder {
  device: WorkDevice;
  /** The configuration by which the data was backed up before. */
  configId: string | null;
  paths: string[];
  ttlSeconds: number;
  createdBy: string | null;
}

/**
 * Has paths of a device backed up, without a request. Answers `undefined` while another backup of the device by the same
 * configuration is in flight.
 */
export async function orderBackup(
  tx: Tx,
  { device, configId, paths, ttlSeconds, createdBy }: BackupOrder,
  jobs: Jobs,
): Promise<string | undefined> {
  const config = await BackupConfig.query(tx)
    .where({ org_id: device.orgId, provider: 'server', enabled: true })
    .whereRaw(`coalesce(sources ->> 'kind', 'files') = 'files'`)
    .orderByRaw('id is not distinct from ?::uuid desc, is_default desc, id', [configId])
    .forShare()
    .first();
  if (config === undefined) {
    throw new WorkRefused(
      'CONFIG_MISSING',
      'The organization has no backup configuration of files that stores its data on this server.',
    );
  }
  const inFlight = await BackupJob.query(tx)
    .where({ device_id: device.id, config_id: config.id })
    .whereNull('finished_at')
    .select('id')
    .first();
  if (inFlight !== undefined) return undefined;
  const id = newId();
  await BackupJob.query(tx).insert({
    id,
    orgId: device.orgId,
    deviceId: device.id,
    configId: config.id,
    type: 'manual',
    wantedType: null,
    sources: { kind: 'files', paths: { [device.osType]: paths } },
    expiresAt: new Date(Date.now() + ttlSeconds * 1000),
    createdBy,
  });
  await jobs.enqueue(tx, HAND_OVER, {});
  return id;
}
