import { clock, HOUR_MS } from '../../clock.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import type { ClientInfo, PublicContext, Context } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { addressLimiter, countedAddress } from '../../platform/http/client-address.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { isWellFormed, newToken, tokenHash } from '../../platform/secrets/tokens.ts';
import type { RecoveryAccess, RecoveryEnd, RecoveryReport, RecoveryStart } from '../../protocol/index.ts';
import { BackupRepository, endCredential, issueCredential } from '../backup-store/index.ts';
import { BackupSnapshot, storePath, snapshotReading, encryptionKeys } from '../backup/index.ts';
import { stillHolds } from '../roles/index.ts';
import { BareMetalToken } from './machine-recovery.model.ts';
import { findTenant } from './machine-recovery.queries.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import type { NewRecoveryToken, RecoveryTokenQuery } from './bare-metal.schema.ts';

/** Wrong tokens from one address. */
const FAILURES = { points: 20, seconds: 300 };
/** Starts with one token: a rescue system that loses its network begins again some times, and not for ever. */
const STARTS = { points: 10, seconds: 3600 };

type BareMetalLimits = ReturnType<typeof bareMetalLimits>;

export function bareMetalLimits(limits: RateLimits) {
  const failures = addressLimiter(limits, 'recovery-failure', FAILURES);
  const starts = limits.limiter('recovery-start', STARTS);
  return {
    /** Lets an address try a token, unless it has had too many wrong ones. Throws `rate_limited`. */
    async limited<T>(client: ClientInfo, work: () => Promise<T>): Promise<T> {
      const ip = countedAddress(client);
      if (ip === undefined) return work();
      // Taking a point reports the time at which there is one again.
      if (await failures.isSpent(ip)) await failures.take(ip);
      try {
        return await work();
      } catch (error) {
        if (error instanceof AppError && error.code === 'unauthenticated') await failures.take(ip);
        throw error;
      }
    },
    /** @param tokenHash  of a token that is known */
    start: (tokenHash: string) => starts.take(tokenHash),
  };
}

// The requests of the machine that is recovered. Its token is its only identity.

export interface BareMetalParts {
  audit: AuditTrail;
  secrets: Encryptor;
  bareMetalLimits: BareMetalLimits;
}

/** Some terabytes at the speed of an office. */
const SESSION_MS = 48 * 3_600_000;

const WHY = 'recover a machine, whose tenant only the token knows';

const REFUSED = {
  unknown: 'The recovery token is not known.',
  revoked: 'The recovery token has been revoked.',
  used: 'The recovery token has been used.',
  expired: 'The recovery token has expired.',
  unbacked: 'The person who created this recovery token has no right to it any more. Create a new one.',
  taken: 'Another machine has begun a recovery with this token. Revoke it and create a new one.',
} as const;

type Found = BareMetalToken & { partnerId: string; isTenantActive: boolean; isBacked: boolean };

/**
 * Begins a recovery, or goes on with one. The first start is given a secret of its own, without which no machine can start
 * with the same token again.
 */
export async function startRecovery(
  ctx: PublicContext,
  { token, session, machine }: RecoveryStart,
  parts: BareMetalParts,
): Promise<RecoveryAccess> {
  const outcome = await parts.bareMetalLimits.limited(ctx.client, async () => {
    assertForm(token);
    await parts.bareMetalLimits.start(tokenHash(token));
    const answer = await ctx.withSystem(WHY, async (tx) => {
      const found = await findUsableToken(tx, token);
      const fault = faultOf(found, session);
      // Recorded, so it is not thrown in here.
      if (fault !== undefined) {
        await recordReport(tx, ctx, parts, found, {
          action: 'backup.bmr.authenticate',
          errorMessage: REFUSED[fault],
        });
        return { fault };
      }
      return { access: await open(tx, ctx, parts, { found, machine, isContinued: session !== undefined }) };
    });
    parts.audit.committed();
    if (answer.fault !== undefined) throw new AppError('unauthenticated', REFUSED[answer.fault]);
    return answer.access;
  });
  return outcome;
}

interface Opening {
  found: Found;
  machine: RecoveryStart['machine'];
  isContinued: boolean;
}

async function open(
  tx: Tx,
  ctx: PublicContext,
  parts: BareMetalParts,
  { found, machine, isContinued }: Opening,
): Promise<RecoveryAccess> {
  if (!found.isTenantActive) {
    throw new AppError('tenant_inactive', 'The organization of this recovery token is not active.');
  }
  const snapshot = await BackupSnapshot.query(tx).findById(found.snapshotId).throwIfNotFound();
  snapshotReading.assertPresent(snapshot, undefined);
  const repository = await BackupRepository.query(tx).findById(snapshot.repositoryId).throwIfNotFound();
  const sessionExpiresAt = found.sessionExpiresAt ?? new Date(clock.now() + SESSION_MS);
  if (found.credentialId !== null) await endCredential(tx, found.credentialId);
  const credential = await issueCredential(tx, {
    repositoryId: repository.id,
    role: 'reader',
    jobId: found.id,
    expiresAt: sessionExpiresAt,
  });
  const { password, keyHint } = await encryptionKeys.repositoryPassword(tx, repository, parts.secrets);
  const session = isContinued ? undefined : newToken('recoverySession');
  await BareMetalToken.query(tx)
    .findById(found.id)
    .patch({
      status: 'authenticated',
      authentications: found.authentications + 1,
      authenticatedAt: found.authenticatedAt ?? clock.date(),
      sessionExpiresAt,
      credentialId: credential.id,
      machine,
      ...(session === undefined ? {} : { sessionHash: tokenHash(session) }),
    });
  await recordReport(tx, ctx, parts, found, {
    action: 'backup.bmr.authenticate',
    details: { ...machine, isContinued },
  });
  const { details } = snapshot;
  return {
    recoveryId: found.id,
    ...omitUndefined({ session }),
    sessionExpiresAt: sessionExpiresAt.toISOString(),
    snapshotId: snapshot.engineId,
    machineName: details?.kind === 'image' ? details.machine : '',
    details: details?.kind === 'image' ? details : null,
    targetConfig: found.targetConfig,
    repository: {
      path: storePath(repository.id),
      user: credential.user,
      secret: credential.secret,
      password,
      ...omitUndefined({ keyHint }),
    },
  };
}

export async function reportRecovery(
  ctx: PublicContext,
  { token, session, progress }: RecoveryReport,
  { bareMetalLimits }: BareMetalParts,
): Promise<void> {
  await bareMetalLimits.limited(ctx.client, () =>
    ctx.withSystem(WHY, async (tx) => {
      const found = await findSession(tx, token, session);
      await BareMetalToken.query(tx).findById(found.id).patch({ progress });
    }),
  );
}

/** From then on the token and its credential open nothing. A recovery that has failed can be started again. */
export async function completeRecovery(
  ctx: PublicContext,
  { token, session, result }: RecoveryEnd,
  parts: BareMetalParts,
): Promise<void> {
  await parts.bareMetalLimits.limited(ctx.client, () =>
    ctx.withSystem(WHY, async (tx) => {
      const found = await findSession(tx, token, session);
      if (found.credentialId !== null) await endCredential(tx, found.credentialId);
      const isOver = result.status !== 'failed';
      await BareMetalToken.query(tx)
        .findById(found.id)
        .patch({
          result,
          credentialId: null,
          ...(isOver ? { status: 'used', finishedAt: clock.date(), sessionHash: null } : {}),
        });
      const { status, bytesRestored, validated, error } = result;
      await recordReport(tx, ctx, parts, found, {
        action: 'backup.bmr.complete',
        details: { status, bytesRestored, validated },
        ...(error === null ? {} : { errorMessage: error.message }),
      });
    }),
  );
  parts.audit.committed();
}

const unauthenticated = (fault: keyof typeof REFUSED) => new AppError('unauthenticated', REFUSED[fault]);

function assertForm(token: string): void {
  if (!isWellFormed('recovery', token)) throw unauthenticated('unknown');
}

/** Locked, so that two machines cannot both be the first. */
async function findUsableToken(tx: Tx, token: string): Promise<Found> {
  assertForm(token);
  const found = await BareMetalToken.query(tx)
    .findOne({ token_hash: tokenHash(token) })
    .forUpdate();
  if (found === undefined) throw unauthenticated('unknown');
  const tenant = await findTenant(tx, found.orgId);
  if (tenant === undefined) throw unauthenticated('unknown');
  const { partnerId, isActive: isTenantActive } = tenant;
  const backing = { partnerId, orgIds: [found.orgId] };
  const isBacked = await stillHolds(tx, found.createdBy, backing, [CREATES_TOKENS]);
  return Object.assign(found, { partnerId, isTenantActive, isBacked });
}

async function findSession(tx: Tx, token: string, session: string): Promise<Found> {
  const found = await findUsableToken(tx, token);
  const fault = faultOf(found, session) ?? (found.status === 'authenticated' ? undefined : 'unknown');
  if (fault !== undefined) throw unauthenticated(fault);
  return found;
}

function faultOf(found: Found, session: string | undefined): keyof typeof REFUSED | undefined {
  if (found.status === 'revoked' || found.status === 'used') return found.status;
  if (openUntil(found) <= clock.date()) return 'expired';
  if (!found.isBacked) return 'unbacked';
  const isOfSession = session !== undefined && tokenHash(session) === found.sessionHash;
  if (found.status === 'authenticated' && !isOfSession) return 'taken';
  return found.status === 'active' && session !== undefined ? 'unknown' : undefined;
}

async function recordReport(
  tx: Tx,
  ctx: PublicContext,
  { audit }: BareMetalParts,
  { id, deviceId, orgId, partnerId, snapshotId }: Found,
  { action, details = {}, errorMessage }: { action: string; details?: object; errorMessage?: string },
): Promise<void> {
  await audit.record(tx, {
    action,
    resourceType: 'backup_recovery_token',
    resourceId: id,
    orgId,
    details: { snapshotId, ...details },
    ...(errorMessage === undefined ? {} : { result: 'failure' as const, errorMessage }),
    actor: { kind: 'agent', deviceId, orgId, partnerId },
    state: ctx,
  });
}

/** The permission that creates a token. Its creator needs it for as long as the token is used. */
export const CREATES_TOKENS = 'recovery:execute';

/** The most open tokens of one device. */
const OPEN_MAX = 20;

const accessible = ({ tx, caller }: Pick<Context, 'tx' | 'caller'>) =>
  BareMetalToken.query(tx).whereRaw(inTenant(caller, 'backup_recovery_tokens.org_id'));

export async function createToken(ctx: Context, wanted: NewRecoveryToken, baseUrl: () => string) {
  const { snapshotId, expiresInHours, restoreType, targetConfig = {} } = wanted;
  const snapshot = await snapshotReading.findSnapshot(ctx, snapshotId);
  await assertManageable(ctx, snapshot.orgId);
  snapshotReading.assertPresent(snapshot, undefined);
  if (snapshot.backupType !== 'system_image') {
    throw invalid('body.snapshotId', 'must be an image of whole disks');
  }
  if (snapshot.provider !== 'server') {
    throw new AppError(
      'conflict',
      'The data of this snapshot is not on this server. Restore it with restic and tar.',
    );
  }
  const open = await BareMetalToken.query(ctx.tx)
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
  const created = await BareMetalToken.query(ctx.tx).insertAndFetch({
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
  return { ...toTokenResponse(created), token, command };
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
  return toPage(query, { results: results.map(toTokenResponse), total });
}

async function findToken(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<BareMetalToken> {
  const found = await accessible(ctx).findById(id);
  if (found === undefined) throw notFound('Recovery token');
  return found;
}

export const readToken = async (ctx: Context, id: string) => toTokenResponse(await findToken(ctx, id));

/** A recovery that is going on is cut off: it can read nothing more from the store. */
export async function revokeToken(ctx: Context, id: string) {
  const { orgId } = await findToken(ctx, id);
  await assertManageable(ctx, orgId);
  const token = await BareMetalToken.query(ctx.tx).findById(id).forNoKeyUpdate().throwIfNotFound();
  if (token.finishedAt !== null) {
    throw new AppError('conflict', `The token is ${token.status} already.`);
  }
  if (token.credentialId !== null) await endCredential(ctx.tx, token.credentialId);
  const revoked = await token
    .$query(ctx.tx)
    .patchAndFetch({ status: 'revoked', finishedAt: clock.date(), sessionHash: null });
  return toTokenResponse(revoked);
}

/** The time until which a token, or the recovery that it has begun, can go on. */
const openUntil = ({ sessionExpiresAt, expiresAt }: BareMetalToken): Date => sessionExpiresAt ?? expiresAt;

function toTokenResponse(token: BareMetalToken) {
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
