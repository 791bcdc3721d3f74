import type { Context } from '../../../platform/context.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, invalid, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { commandTargets } from '../../devices/index.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import { assertCanWork } from '../access/device-engine.ts';
import type { ServerEngine } from '../access/server-engine.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { VERIFY } from './verify-job.ts';
import { BackupVerification } from './verification.model.ts';
import type { NewVerification, VerificationQuery } from './verification.schema.ts';

export interface VerificationParts {
  hub: DeviceHub;
  jobs: Jobs;
  backupEngine: ServerEngine;
}

export async function listVerifications(ctx: Context, { page, limit, ...filter }: VerificationQuery) {
  if (filter.orgId !== undefined) await assertOrganizationAccess(ctx, filter.orgId);
  const { orgId, deviceId, verificationType, status, from, to } = filter;
  const verifications = BackupVerification.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_verifications.org_id'))
    .where(omitUndefined({ org_id: orgId, device_id: deviceId, verification_type: verificationType }))
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(page - 1, limit);
  if (status !== undefined) void verifications.whereIn('status', status);
  if (from !== undefined) void verifications.where('created_at', '>=', from);
  if (to !== undefined) void verifications.where('created_at', '<=', to);
  const { data, pagination } = toPage({ page, limit }, await verifications);
  return { data: data.map(shownVerification), pagination };
}

export const shownVerification = ({ sizeBytes, restoreSeconds, ...verification }: BackupVerification) => ({
  ...verification,
  sizeBytes: Number(sizeBytes),
  restoreTimeSeconds: restoreSeconds,
});

/** Begins a verification in the background. Throws `conflict` while one of its kind is in flight. */
export async function startVerification(
  ctx: Context,
  input: NewVerification,
  { hub, jobs }: VerificationParts,
) {
  const [device] = await commandTargets(ctx, [input.deviceId]);
  if (device === undefined) throw notFound('Device');
  await assertManageable(ctx, device.orgId);
  if (input.verificationType === 'test_restore') {
    assertCanWork(hub, device, { type: 'backup.verify', what: 'restore a sample of its backups' });
  }
  const repository = await repositoryOf(ctx, device, input);
  if (input.snapshotId !== undefined) await assertSnapshot(ctx, repository, input);
  const { verificationType, snapshotId = null } = input;
  const verification = await addVerification(ctx.tx, jobs, {
    repository,
    verificationType,
    snapshotId,
    createdBy: ctx.caller.userId,
    partnerId: null,
  });
  if (verification === undefined) {
    throw new AppError('conflict', 'A verification of this kind is in flight for the repository.');
  }
  return shownVerification(verification);
}

interface ToAdd extends Pick<BackupVerification, 'verificationType' | 'snapshotId' | 'createdBy'> {
  repository: Pick<BackupRepository, 'id' | 'orgId' | 'deviceId' | 'configId'>;
  partnerId: string | null;
}

/** `undefined` where one of its kind is in flight. */
export async function addVerification(
  tx: Tx,
  jobs: Jobs,
  { repository, partnerId, ...rest }: ToAdd,
): Promise<BackupVerification | undefined> {
  const { id: repositoryId, orgId, deviceId, configId } = repository;
  await tx.raw('select from backup_repositories where id = ? for no key update', [repositoryId]);
  const inFlight = await BackupVerification.query(tx)
    .where({ repository_id: repositoryId, verification_type: rest.verificationType })
    .whereNull('finished_at')
    .first();
  if (inFlight !== undefined) return undefined;
  const added = await BackupVerification.query(tx).insertAndFetch({
    orgId,
    deviceId,
    configId,
    repositoryId,
    ...rest,
  });
  await jobs.enqueue(tx, VERIFY, { verificationId: added.id }, { partnerId });
  return added;
}

async function repositoryOf(
  { tx }: Context,
  device: { id: string; orgId: string },
  { configId }: NewVerification,
): Promise<BackupRepository> {
  const repositories = await BackupRepository.query(tx)
    .where({ org_id: device.orgId, device_id: device.id, is_vault: false })
    .where(omitUndefined({ config_id: configId }))
    .whereNotNull('initialized_at')
    .limit(2);
  const [repository, another] = repositories;
  if (repository === undefined && configId !== undefined) {
    throw invalid('body.configId', 'must be a configuration that has backed the device up');
  }
  if (repository === undefined) throw new AppError('conflict', 'The device has no backups to verify.');
  if (another !== undefined && configId === undefined) {
    throw invalid('body.configId', 'is required, because the device has backups of several configurations');
  }
  if (repository.provider !== 'server') {
    throw new AppError('conflict', 'Only backups in the backup store of the server can be verified.');
  }
  return repository;
}

async function assertSnapshot({ tx }: Context, repository: BackupRepository, input: NewVerification) {
  if (input.verificationType === 'integrity') {
    throw invalid('body.snapshotId', 'is for test restores only: integrity is of all snapshots');
  }
  const snapshot = await BackupSnapshot.query(tx)
    .findOne({ id: input.snapshotId, repository_id: repository.id })
    .whereNull('removed_at');
  if (snapshot === undefined) throw notFound('Snapshot');
}
