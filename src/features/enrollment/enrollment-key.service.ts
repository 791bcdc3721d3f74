import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
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
    expiresAt: input.expiresAt === undefined ? null : new Date(input.expiresAt),
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

/** The record stays, so that it can be seen which devices came in by it. */
export async function revokeEnrollmentKey(ctx: Context, id: string) {
  const key = await readEnrollmentKey(ctx, id);
  if (key.revokedAt === null) await key.$query(ctx.tx).patch({ revokedAt: new Date() });
  return { success: true as const, key };
}
