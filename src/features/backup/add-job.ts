// Backup jobs are work (docs/decisions/backup-jobs.md): the kind of work, and how a job is added.
import { z } from 'zod';
import { DAY_MS } from '../../clock.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
import { defineWork, findOpenWork, type WorkEngine } from '../work/index.ts';
import type { BackupConfig } from './config.model.ts';
import { isInBucket, type Provider } from './config.schema.ts';
import { BackupJobFacts } from './job.model.ts';
import { BACKUP_COMMANDS } from './source-kinds.ts';

/** How many backups run at a time into the backup store, into one bucket, and into the folder of a device. */
const AT_ONCE_INTO: Readonly<Record<Provider, number>> = { server: 64, s3: 32, local: 1 };

/** Given to the device as soon as that is connected and its turn has come, and recorded when the command has ended. */
export const BACKUP = defineWork({
  kind: 'backup',
  input: z.object({}),
  steps: ['begin', 'record'],
  limits: { inProcess: 8, ofTarget: AT_ONCE_INTO.server },
  attempts: 10,
  deadlineMs: 7 * DAY_MS,
  runsOnServer: false,
  commands: BACKUP_COMMANDS,
});

type Pair = Pick<BackupConfig, 'id'> & { deviceId: string };

/** A device has one open job of a configuration, because its repository takes one at a time. */
const exclusiveKeyOf = ({ id, deviceId }: Pair): string => `${id} ${deviceId}`;
/** The same in SQL. */
export const exclusiveKeySql = (id: string, deviceId: string): string => `${id} || ' ' || ${deviceId}`;

/** What limits how many run at once. A target that is null is the device itself, which has a folder of its own. */
export function destinationOf({ provider, details }: Pick<BackupConfig, 'provider' | 'details'>): {
  target: string | null;
  targetLimit: number;
} {
  const targetLimit = AT_ONCE_INTO[provider];
  if (!isInBucket(details)) return { target: provider === 'local' ? null : provider, targetLimit };
  const { endpoint = '', region, bucket } = details;
  return { target: ['s3', endpoint, region, bucket].join('/'), targetLimit };
}

export type NewJob = Pick<BackupJobFacts, 'wantedType' | 'sources'> & {
  device: { id: string; orgId: string };
  config: BackupConfig;
  /** How long it waits for its device. */
  waitMs?: number;
  createdBy: string | null;
};

/**
 * Adds a job that a person or a recovery plan wants now.
 * @returns its id; `undefined` if one of the device and the configuration is open
 */
export async function addJob(tx: Tx, work: WorkEngine, job: NewJob): Promise<string | undefined> {
  const options = job.waitMs === undefined ? {} : { deadlineMs: job.waitMs };
  const id = await work.enqueue(tx, BACKUP, {}, { ...workOf(job), ...options });
  if (id === undefined) return undefined;
  await BackupJobFacts.query(tx).insert({ id, ...factsOf(job) });
  return id;
}

/**
 * Adds a job for each of many devices, in two statements.
 * @returns those that were added: the others have an open one of the configuration
 */
export async function addJobs(
  tx: Tx,
  work: WorkEngine,
  jobs: readonly Omit<NewJob, 'waitMs'>[],
): Promise<{ id: string; orgId: string; deviceId: string; configId: string }[]> {
  const wanted = jobs.map((job) => ({ id: newId(), job }));
  const added = await work.enqueueMany(
    tx,
    BACKUP,
    wanted.map(({ id, job }) => ({ id, ...workOf(job) })),
  );
  const facts = wanted.filter(({ id }) => added.has(id)).map(({ id, job }) => ({ id, ...factsOf(job) }));
  if (facts.length > 0) await BackupJobFacts.query(tx).insert(facts);
  return facts;
}

const workOf = ({ device: { id: deviceId, orgId }, config, createdBy }: NewJob) => {
  const { target, targetLimit } = destinationOf(config);
  const exclusiveKey = exclusiveKeyOf({ id: config.id, deviceId });
  return {
    orgId,
    deviceId,
    createdBy,
    isUrgent: true,
    target: target ?? deviceId,
    targetLimit,
    exclusiveKey,
  };
};

const factsOf = ({ device, config, wantedType, sources }: NewJob) => ({
  orgId: device.orgId,
  deviceId: device.id,
  configId: config.id,
  type: 'manual' as const,
  wantedType,
  sources,
});

/** The id of the open job of a device and a configuration. */
export const findOpenJob = (tx: Tx, pair: Pair): Promise<string | undefined> =>
  findOpenWork(tx, BACKUP, exclusiveKeyOf(pair));
