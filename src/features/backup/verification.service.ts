import { z } from 'zod';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { HOUR_MS } from '../../clock.ts';
import { defineWork, type WorkEngine } from '../work/index.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { commandTargets } from '../devices/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { assertCanWork } from './device-requests.ts';
import { BackupVerification, VerificationFacts } from './protection.model.ts';
import type { ServerEngine } from './repository-access.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import type { NewVerification, VerificationQuery } from './verification.schema.ts';

/** Reads a repository, or prepares a test restore, gives it to the device, and judges what that has restored. */
export const VERIFICATION = defineWork({
  kind: 'verification',
  input: z.object({}),
  steps: ['verify', 'judge'],
  attempts: 3,
  limits: { inProcess: 2 },
  deadlineMs: 26 * HOUR_MS,
  commands: ['backup.verify'],
});

export interface VerificationParts {
  hub: DeviceHub;
  work: WorkEngine;
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
  return { data: data.map(toVerificationResponse), pagination };
}

export const toVerificationResponse = ({
  sizeBytes,
  restoreSeconds,
  ...verification
}: BackupVerification) => ({
  ...verification,
  sizeBytes: Number(sizeBytes),
  restoreTimeSeconds: restoreSeconds,
});

/** Begins a verification in the background. Throws `conflict` while one of its kind is in flight. */
export async function startVerification(
  ctx: Context,
  input: NewVerification,
  { hub, work }: VerificationParts,
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
  const verification = await addVerification(ctx.tx, work, {
    repository,
    verificationType,
    snapshotId,
    createdBy: ctx.caller.userId,
  });
  if (verification === undefined) {
    throw new AppError('conflict', 'A verification of this kind is in flight for the repository.');
  }
  return toVerificationResponse(verification);
}

interface ToAdd extends Pick<BackupVerification, 'verificationType' | 'snapshotId' | 'createdBy'> {
  repository: Pick<BackupRepository, 'id' | 'orgId' | 'deviceId' | 'configId'>;
}

/** `undefined` if one of its kind is in flight. */
export async function addVerification(
  tx: Tx,
  work: WorkEngine,
  { repository, verificationType, snapshotId, createdBy }: ToAdd,
): Promise<BackupVerification | undefined> {
  const { id: repositoryId, orgId, deviceId, configId } = repository;
  const id = await work.enqueue(
    tx,
    VERIFICATION,
    {},
    {
      orgId,
      deviceId,
      createdBy,
      isUrgent: createdBy !== null,
      exclusiveKey: `${repositoryId} ${verificationType}`,
    },
  );
  if (id === undefined) return undefined;
  await VerificationFacts.query(tx).insert({
    id,
    orgId,
    configId,
    repositoryId,
    verificationType,
    snapshotId,
  });
  return BackupVerification.query(tx).findById(id).throwIfNotFound();
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
