import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { BackupConfig } from '../configs/config.model.ts';
import type { JobSources } from '../configs/sources.schema.ts';
import { HAND_OVER } from '../jobs/background.ts';
import { BackupJob } from '../jobs/job.model.ts';
import type { WorkDevice } from './order-files.ts';
import { WorkRefused } from './refusal.ts';

interface JobOrder {
  device: WorkDevice;
  /** The configuration by which the data was backed up before. */
  configId: string | null;
  ttlSeconds: number;
  createdBy: string | null;
}

/**
 * Has paths of a device backed up, without a request. Answers `undefined` while another backup of the device by the same
 * configuration is in flight.
 */
export async function orderBackup(
  tx: Tx,
  { paths, ...order }: JobOrder & { paths: string[] },
  jobs: Jobs,
): Promise<string | undefined> {
  const configs = serverConfigs(tx, order).whereRaw(`coalesce(sources ->> 'kind', 'files') = 'files'`);
  const sources = { kind: 'files' as const, paths: { [order.device.osType]: paths } };
  const missing =
    'The organization has no backup configuration of files that stores its data on this server.';
  return addJob(tx, { ...order, configs, sources, missing }, jobs);
}

/** The same with a machine that the device has made of a snapshot. It is shut down for that. */
export async function orderMachineBackup(
  tx: Tx,
  { vmRestoreId, ...order }: JobOrder & { vmRestoreId: string },
  jobs: Jobs,
): Promise<string | undefined> {
  const configs = serverConfigs(tx, order);
  const sources = { kind: 'restored' as const, vmRestoreId };
  const missing = 'The organization has no backup configuration that stores its data on this server.';
  return addJob(tx, { ...order, configs, sources, missing }, jobs);
}

/** The one that is wanted comes first. */
const serverConfigs = (tx: Tx, { device, configId }: Pick<JobOrder, 'device' | 'configId'>) =>
  BackupConfig.query(tx)
    .where({ org_id: device.orgId, provider: 'server', enabled: true })
    .orderByRaw('id is not distinct from ?::uuid desc, is_default desc, id', [configId])
    .forShare();

interface NewJob extends JobOrder {
  configs: ReturnType<typeof serverConfigs>;
  sources: JobSources;
  /** What is said where there is no configuration. */
  missing: string;
}

async function addJob(
  tx: Tx,
  { device, configs, sources, missing, ttlSeconds, createdBy }: NewJob,
  jobs: Jobs,
): Promise<string | undefined> {
  const config = await configs.first();
  if (config === undefined) throw new WorkRefused('CONFIG_MISSING', missing);
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
    sources,
    expiresAt: new Date(clock.now() + ttlSeconds * 1000),
    createdBy,
  });
  await jobs.enqueue(tx, HAND_OVER, {});
  return id;
}
