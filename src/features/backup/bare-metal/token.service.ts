import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, invalid, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { newToken, tokenHash } from '../../../platform/secrets/tokens.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import { findSnapshot } from '../snapshots/snapshot.service.ts';
import { assertPresent } from '../reading/open-snapshot.ts';
import { endCredential } from '../store/records/credentials.ts';
import { RecoveryToken } from './token.model.ts';
import type { NewRecoveryToken, RecoveryTokenQuery } from './token.schema.ts';

/** The permission that creates a token. Whoever has created one needs it for as long as the token is used. */
export const CREATES_TOKENS = 'recovery:execute';

const HOUR_MS = 3_600_000;
/** Of one device, which has as many ways to be recovered. */
const OPEN_MAX = 20;

const accessible = ({ tx, caller }: Pick<Context, 'tx' | 'caller'>) =>
  RecoveryToken.query(tx).whereRaw(inTenant(caller, 'backup_recovery_tokens.org_id'));

export async function createToken(ctx: Context, wanted: NewRecoveryToken, baseUrl: () => string) {
  const { snapshotId, expiresInHours, restoreType, targetConfig = {} } = wanted;
  const snapshot = await findSnapshot(ctx, snapshotId);
  await assertManageable(ctx, snapshot.orgId);
  assertPresent(snapshot, undefined);
  if (snapshot.backupType !== 'system_image') {
    throw invalid('body.snapshotId', 'must be an image of whole disks');
  }
  if (snapshot.provider !== 'server') {
    throw new AppError(
      'conflict',
      'The data of this snapshot is not on this server. Restore it with restic and tar.',
    );
  }
  const open = await RecoveryToken.query(ctx.tx)
    .where('device_id', snapshot.deviceId)
    .whereNull('finished_at')
    .where('expires_at', '>', clock.date())
    .resultSize();
  if (open >= OPEN_MAX) {
    throw new AppError(
      'conflict',
      `The device has ${OPEN_MAX} recovery tokens that can be used. Revoke some.`,
    );
  }
  const token = newToken('recovery');
  const created = await RecoveryToken.query(ctx.tx).insertAndFetch({
    orgId: snapshot.orgId,
    deviceId: snapshot.deviceId,
    snapshotId: snapshot.id,
    restoreType,
    targetConfig,
    tokenHash: tokenHash(token),
    expiresAt: new Date(clock.now() + expiresInHours * HOUR_MS),
    createdBy: ctx.caller.userId,
  });
  const command = `muster-agent recover --server ${baseUrl()} --token - --target DISK_OR_FOLDER`;
  return { ...shown(created), token, command };
}

export async function listTokens(ctx: Context, query: RecoveryTokenQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessible(ctx)
    .where(omitUndefined({ org_id: query.orgId, device_id: query.deviceId, snapshot_id: query.snapshotId }))
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  return toPage(query, { results: results.map(shown), total });
}

async function findToken(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<RecoveryToken> {
  const found = await accessible(ctx).findById(id);
  if (found === undefined) throw notFound('Recovery token');
  return found;
}

export const readToken = async (ctx: Context, id: string) => shown(await findToken(ctx, id));

/** A recovery that is going on is cut off: it can read nothing more from the store. */
export async function revokeToken(ctx: Context, id: string) {
  const { orgId } = await findToken(ctx, id);
  await assertManageable(ctx, orgId);
  const token = await RecoveryToken.query(ctx.tx).findById(id).forNoKeyUpdate().throwIfNotFound();
  if (token.finishedAt !== null) {
    throw new AppError('conflict', `The token is ${token.status} already.`);
  }
  if (token.credentialId !== null) await endCredential(ctx.tx, token.credentialId);
  const revoked = await token
    .$query(ctx.tx)
    .patchAndFetch({ status: 'revoked', finishedAt: clock.date(), sessionHash: null });
  return shown(revoked);
}

/** The time until which a token, or the recovery that it has begun, can go on. */
export const openUntil = ({ sessionExpiresAt, expiresAt }: RecoveryToken): Date =>
  sessionExpiresAt ?? expiresAt;

function shown(token: RecoveryToken) {
  const { tokenHash: _token, sessionHash: _session, credentialId: _credential, ...rest } = token;
  const { status, result, finishedAt } = rest;
  const isExpired = finishedAt === null && openUntil(token) <= clock.date();
  return {
    ...rest,
    status: isExpired ? ('expired' as const) : status,
    sessionStatus:
      result?.status ?? (status === 'authenticated' ? ('running' as const) : ('pending' as const)),
    completedAt: status === 'used' ? finishedAt : null,
  };
}
