import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newToken, tokenHash } from '../../platform/secrets/tokens.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { readSite } from '../sites/index.ts';
import { EnrollmentKey } from './enrollment-key.model.ts';
import type { EnrollmentKeyQuery, NewEnrollmentKey } from './enrollment.schema.ts';

const accessible = (ctx: Context) =>
  EnrollmentKey.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'enrollment_keys.org_id'));
const PREFIX_LENGTH = 10;

export async function createEnrollmentKey(ctx: Context, input: NewEnrollmentKey) {
  await assertOrganizationAccess(ctx, input.orgId);
  await assertManageable(ctx, input.orgId);
  if (input.siteId !== undefined && (await readSite(ctx, input.siteId)).orgId !== input.orgId) {
    throw new AppError('validation_failed', 'body.siteId: must be a site of the organization', {
      details: [{ path: 'body.siteId', message: 'must be a site of the organization' }],
    });
  }
  const key = newToken('enrollmentKey');
  const record = await EnrollmentKey.query(ctx.tx).insertAndFetch({
    orgId: input.orgId,
    siteId: input.siteId ?? null,
    name: input.name,
    keyHash: tokenHash(key),
    keyPrefix: key.slice(0, PREFIX_LENGTH),
    maxUsage: input.maxUsage ?? null,
    expiresAt: input.expiresAt ?? null,
    createdBy: ctx.caller.userId,
  });
  return { ...record.toJSON(), key };
}

export async function listEnrollmentKeys(ctx: Context, query: EnrollmentKeyQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const keys = accessible(ctx)
    .orderBy([{ column: 'created_at', order: 'desc' }, 'id'])
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void keys.where('org_id', query.orgId);
  return toPage(query, await keys);
}

export async function readEnrollmentKey(ctx: Context, id: string): Promise<EnrollmentKey> {
  const key = await accessible(ctx).findById(id);
  if (key === undefined) throw notFound('Enrollment key');
  return key;
}

/** Another value for the same key. A machine that enrolls by the old one in this moment is either first or refused. */
export async function rotateEnrollmentKey(ctx: Context, id: string) {
  await assertManageable(ctx, (await readEnrollmentKey(ctx, id)).orgId);
  const key = newToken('enrollmentKey');
  // The condition holds against a revocation at the same time.
  const [record] = await accessible(ctx)
    .where({ id })
    .whereNull('revoked_at')
    .patch({ keyHash: tokenHash(key), keyPrefix: key.slice(0, PREFIX_LENGTH) })
    .returning('*');
  if (record === undefined) throw new AppError('conflict', 'The enrollment key has been revoked.');
  return { ...record.toJSON(), key };
}

/** The record stays, so that it can be seen which devices came in by it. */
export async function revokeEnrollmentKey(ctx: Context, id: string) {
  const key = await readEnrollmentKey(ctx, id);
  if (key.revokedAt === null) await key.$query(ctx.tx).patch({ revokedAt: clock.date() });
  return { success: true as const, key };
}
