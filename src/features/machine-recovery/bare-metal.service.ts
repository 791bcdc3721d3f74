import { clock } from '../../../clock.ts';
import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { isWellFormed, newToken, tokenHash } from '../../../platform/secrets/tokens.ts';
import type { RecoveryAccess, RecoveryEnd, RecoveryReport, RecoveryStart } from '../../../protocol/index.ts';
import { repositoryPassword } from '../access/repository-passwords.ts';
import { storePath } from '../access/open-repository.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { assertPresent } from '../reading/open-snapshot.ts';
import { endCredential, issueCredential } from '../store/records/credentials.ts';
import type { RecoveryLimits } from './recovery-limits.ts';
import { stillHolds } from '../../roles/index.ts';
import { CREATES_TOKENS, openUntil } from './token.service.ts';
import { RecoveryToken } from './token.model.ts';

/** The side of the machine that is recovered. It has no identity but its token. */

export interface RecoveryParts {
  audit: AuditTrail;
  secrets: Sealer;
  recoveryLimits: RecoveryLimits;
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

type Found = RecoveryToken & { partnerId: string; isTenantActive: boolean; isBacked: boolean };

/**
 * Begins a recovery, or goes on with one. The first start is given a secret of its own, without which nobody can start
 * with the same token again.
 */
export async function startRecovery(
  ctx: PublicContext,
  { token, session, machine }: RecoveryStart,
  parts: RecoveryParts,
): Promise<RecoveryAccess> {
  const outcome = await parts.recoveryLimits.limited(ctx.client, async () => {
    assertForm(token);
    await parts.recoveryLimits.start(tokenHash(token));
    const answer = await ctx.withSystem(WHY, async (tx) => {
      const found = await findToken(tx, token);
      const fault = faultOf(found, session);
      // Recorded, so it is not thrown in here.
      if (fault !== undefined) {
        await note(tx, ctx, parts, found, {
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
  parts: RecoveryParts,
  { found, machine, isContinued }: Opening,
): Promise<RecoveryAccess> {
  if (!found.isTenantActive) {
    throw new AppError('tenant_inactive', 'The organization of this recovery token is not active.');
  }
  const snapshot = await BackupSnapshot.query(tx).findById(found.snapshotId).throwIfNotFound();
  assertPresent(snapshot, undefined);
  const repository = await BackupRepository.query(tx).findById(snapshot.repositoryId).throwIfNotFound();
  const sessionExpiresAt = found.sessionExpiresAt ?? new Date(clock.now() + SESSION_MS);
  if (found.credentialId !== null) await endCredential(tx, found.credentialId);
  const credential = await issueCredential(tx, {
    repositoryId: repository.id,
    role: 'reader',
    jobId: found.id,
    expiresAt: sessionExpiresAt,
  });
  const { password, keyHint } = await repositoryPassword(tx, repository, parts.secrets);
  const session = isContinued ? undefined : newToken('recoverySession');
  await RecoveryToken.query(tx)
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
  await note(tx, ctx, parts, found, {
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
  { recoveryLimits }: RecoveryParts,
): Promise<void> {
  await recoveryLimits.limited(ctx.client, () =>
    ctx.withSystem(WHY, async (tx) => {
      const found = await findSession(tx, token, session);
      await RecoveryToken.query(tx).findById(found.id).patch({ progress });
    }),
  );
}

/** From then on the token and its credential open nothing. A recovery that has failed can be started again. */
export async function completeRecovery(
  ctx: PublicContext,
  { token, session, result }: RecoveryEnd,
  parts: RecoveryParts,
): Promise<void> {
  await parts.recoveryLimits.limited(ctx.client, () =>
    ctx.withSystem(WHY, async (tx) => {
      const found = await findSession(tx, token, session);
      if (found.credentialId !== null) await endCredential(tx, found.credentialId);
      const isOver = result.status !== 'failed';
      await RecoveryToken.query(tx)
        .findById(found.id)
        .patch({
          result,
          credentialId: null,
          ...(isOver ? { status: 'used', finishedAt: clock.date(), sessionHash: null } : {}),
        });
      const { status, bytesRestored, validated, error } = result;
      await note(tx, ctx, parts, found, {
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
async function findToken(tx: Tx, token: string): Promise<Found> {
  assertForm(token);
  const found = await RecoveryToken.query(tx)
    .findOne({ token_hash: tokenHash(token) })
    .forUpdate();
  if (found === undefined) throw unauthenticated('unknown');
  const [tenant] = await tx('organizations')
    .join('partners', 'partners.id', 'organizations.partner_id')
    .where('organizations.id', found.orgId)
    .select<{ partner_id: string; is_active: boolean }[]>(
      'organizations.partner_id',
      tx.raw(`organizations.deleted_at is null and organizations.status in ('active', 'trial')
        and partners.deleted_at is null and partners.status = 'active' as is_active`),
    );
  if (tenant === undefined) throw unauthenticated('unknown');
  const { partner_id: partnerId, is_active: isTenantActive } = tenant;
  const backing = { partnerId, orgIds: [found.orgId] };
  const isBacked = await stillHolds(tx, found.createdBy, backing, [CREATES_TOKENS]);
  return Object.assign(found, { partnerId, isTenantActive, isBacked });
}

async function findSession(tx: Tx, token: string, session: string): Promise<Found> {
  const found = await findToken(tx, token);
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

async function note(
  tx: Tx,
  ctx: PublicContext,
  { audit }: RecoveryParts,
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
