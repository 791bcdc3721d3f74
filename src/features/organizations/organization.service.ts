import { raw } from 'objection';
import { clock } from '../../clock.ts';
import { assertActsForWholePartner, type Context } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { type CheckPins, mergeOrder, Partner, storedOrder } from '../partners/index.ts';
import { reach } from './organization.queries.ts';
import { Organization } from './organization.model.ts';
import type { NewOrganization, OrganizationPatch } from './organization.schema.ts';

const accessible = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  Organization.query(ctx.tx).whereNull('organizations.deleted_at').whereRaw(reach(ctx.caller));

export async function readOrganization(ctx: Context, id: string): Promise<Organization> {
  const organization = await accessible(ctx).findById(id);
  if (organization === undefined) throw notFound('Organization');
  return organization;
}

export async function createOrganization(
  ctx: Context,
  input: NewOrganization,
  checkPins: CheckPins,
): Promise<Organization> {
  const partnerId = partnerFor(ctx, input.partnerId);
  assertActsForWholePartner(ctx.caller, 'create organizations');
  await checkPins(ctx, input.settings?.agentUpdates?.pins);
  await assertOrganizationQuota(ctx, partnerId);
  return withOwnSlug(Organization.query(ctx.tx).insertAndFetch({ ...omitUndefined(input), partnerId }));
}

export async function updateOrganization(
  ctx: Context,
  id: string,
  { partnerId, ...patch }: OrganizationPatch,
  checkPins: CheckPins,
) {
  const organization = await readOrganization(ctx, id);
  if (partnerId !== undefined && partnerId !== organization.partnerId) {
    throw invalid('body.partnerId', 'cannot be changed');
  }
  const changes = omitUndefined(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  await checkPins(ctx, patch.settings?.agentUpdates?.pins);
  const updated = await withOwnSlug(patchRecorded(ctx, organization, changes));
  return Object.assign(updated, { changedFields });
}

/** Soft: the record stays, out of every list; its sites are not touched. */
export async function deleteOrganization(ctx: Context, id: string) {
  const organization = await readOrganization(ctx, id);
  await organization.$query(ctx.tx).patch({ deletedAt: clock.date() });
  return { success: true as const, organization };
}

/**
 * Stores the order of lists. Unknown and deleted ids are dropped, and organizations that are left out are appended in the
 * order of their registration. Organizations that the user cannot access follow, in their stored order.
 */
export async function orderOrganizations(ctx: Context, wanted: readonly string[]) {
  const { partnerId } = ctx.caller;
  if (partnerId === null) throw new AppError('forbidden', 'This needs partner scope.');
  const partner = await Partner.query(ctx.tx).findById(partnerId).forNoKeyUpdate().throwIfNotFound();
  const registered = (await accessible(ctx).select('id').orderBy(['created_at', 'id'])).map(({ id }) => id);
  const known = new Set(registered);
  const organizationOrder = [...new Set([...wanted.filter((id) => known.has(id)), ...registered])];
  const stored = storedOrder(partner);
  const settings = { ...partner.settings, organizationOrder: mergeOrder(stored, organizationOrder, known) };
  await partner.$query(ctx.tx).patch({ settings });
  const before = stored.filter((id) => known.has(id));
  ctx.recordChange({ organizationOrder: before.length === 0 ? null : before }, { organizationOrder });
  return { organizationOrder, partnerId };
}

/**
 * Throws 403 unless the caller may act in the organizations (SPEC 5.6: when creating in one, or listing by one). In system
 * scope, which reaches all organizations, one that is not found is a 404.
 */
export async function assertOrganizationAccess(
  ctx: Pick<Context, 'tx' | 'caller'>,
  ...orgIds: string[]
): Promise<void> {
  const wanted = new Set(orgIds);
  if (
    (await accessible(ctx)
      .findByIds([...wanted])
      .resultSize()) < wanted.size
  ) {
    if (ctx.caller.scope === 'system') throw notFound('Organization');
    throw new AppError('forbidden', 'Access to this organization denied');
  }
}

/** Devices of a suspended organization still report, but cannot be acted on (SPEC 2.3). */
const MANAGEABLE = ['active', 'trial'];
export const isManageable = (status: string): boolean => MANAGEABLE.includes(status);

/**
 * The status that decides whether users may act in an organization: the partner's if the partner is not active. Only
 * system users get this far then, because users of the partner and of the organization cannot sign in.
 * @param organizations  the alias of the table in the query
 */
export const actingStatusSql = (organizations: string) => `coalesce(
  (select p.status from partners p where p.id = ${organizations}.partner_id and p.status <> 'active'),
  ${organizations}.status)`;

/** The same as `isManageable`, as a condition on a row of organizations. */
export const isManageableSql = (organizations: string) =>
  `${actingStatusSql(organizations)} in (${MANAGEABLE.map((status) => `'${status}'`).join(', ')})`;

export async function assertManageable(ctx: Pick<Context, 'tx' | 'caller'>, orgId: string): Promise<void> {
  const organization = await accessible(ctx)
    .findById(orgId)
    .select(raw(`${actingStatusSql('organizations')} as status`));
  if (organization === undefined) throw notFound('Organization');
  assertManageableStatus(organization.status);
}

/** Throws `tenant_inactive` for a status in which an organization's devices report but cannot be managed. */
export function assertManageableStatus(status: string): void {
  if (!isManageable(status)) {
    throw new AppError(
      'tenant_inactive',
      `This organization is ${status}: its devices report, but cannot be managed.`,
    );
  }
}

/** The ids of the organizations that the caller can access; `null` stands for all. */
export async function accessibleOrganizationIds(ctx: Context): Promise<string[] | null> {
  if (ctx.caller.scope === 'system') return null;
  return (await accessible(ctx).select('id')).map(({ id }) => id);
}

function partnerFor(ctx: Context, given: string | undefined): string {
  if (ctx.caller.scope === 'system') {
    if (given === undefined) {
      throw invalid('body.partnerId', 'is required', 'partnerId is required for system scope');
    }
    return given;
  }
  const own = ctx.caller.partnerId;
  if (own === null) {
    throw invalid('body.partnerId', 'has no partner', 'Partner context required to create organizations');
  }
  if (given !== undefined && given !== own) throw new AppError('forbidden', 'partnerId mismatch');
  return own;
}

/** The partner's row stays locked, so that its limit holds however many organizations are created at once. */
async function assertOrganizationQuota(ctx: Context, partnerId: string): Promise<void> {
  const partner = await Partner.query(ctx.tx).findById(partnerId).whereNull('deleted_at').forNoKeyUpdate();
  if (partner === undefined) throw notFound('Partner');
  const { maxOrganizations: limit } = partner;
  if (limit === null) return;
  const present = await Organization.query(ctx.tx)
    .where('partner_id', partnerId)
    .whereNull('deleted_at')
    .resultSize();
  if (present >= limit) throw new AppError('limit_reached', `Organization limit reached (${limit}).`);
}

const withOwnSlug = <T>(work: PromiseLike<T>) =>
  namingConflict(
    work,
    'organizations_slug_key',
    'body.slug',
    'Another organization of this provider has this slug.',
  );
