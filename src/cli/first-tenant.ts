import { createEnrollmentKey } from '../features/enrollment/index.ts';
import { createOrganization, Organization } from '../features/organizations/index.ts';
import { createPartner, Partner } from '../features/partners/index.ts';
import { assertRegisteredPins } from '../features/agent-upgrades/index.ts';
import { slugCandidates } from '../features/registration/index.ts';
import { createSite, Site } from '../features/sites/index.ts';
import { SYSTEM_ROLES, type User } from '../features/users/index.ts';
import type { Context } from '../platform/context.ts';
import type { Tx } from '../platform/db/transaction.ts';
import type { Logger } from '../platform/logger.ts';
import { contextAs, recordAsOperator } from './with-installation.ts';

/** The first provider, organization, site and enrollment key, by name. Existing ones with the name are used. */

export interface TenantNames {
  provider?: string | undefined;
  organization?: string | undefined;
  site?: string | undefined;
  key?: string | undefined;
}

interface Named {
  id: string;
  name: string;
  isNew: boolean;
}

export interface FirstTenant {
  provider?: Named;
  organization?: Named;
  site?: Named;
  /** The value is shown only once. */
  key?: { id: string; name: string; value: string };
}

/** Creates all of it, or nothing. Throws if a missing name leaves a choice. */
export async function createFirstTenant(
  tx: Tx,
  log: Logger,
  admin: Pick<User, 'id' | 'email' | 'name'>,
  names: TenantNames,
): Promise<FirstTenant> {
  const ctx = contextOf(tx, log, admin);
  const made: FirstTenant = {};
  const needsOrganization = [names.organization, names.site, names.key].some((name) => name !== undefined);
  if (names.provider === undefined && !needsOrganization) return made;
  made.provider = await providerNamed(ctx, names.provider);
  if (!needsOrganization) return made;
  made.organization = await organizationNamed(ctx, made.provider.id, names.organization);
  if (names.site !== undefined) made.site = await siteNamed(ctx, made.organization.id, names.site);
  if (names.key !== undefined) {
    const { id, name, key, orgId } = await createEnrollmentKey(ctx, {
      orgId: made.organization.id,
      name: names.key,
      ...(made.site === undefined ? {} : { siteId: made.site.id }),
    });
    await record(ctx, 'enrollment_key', { id, name, orgId });
    made.key = { id, name, value: key };
  }
  return made;
}

async function providerNamed(ctx: Context, name: string | undefined): Promise<Named> {
  const present = await Partner.query(ctx.tx).whereNull('deleted_at').orderBy('created_at').limit(2);
  if (name === undefined) return only(present, 'provider');
  const known = await Partner.query(ctx.tx).whereNull('deleted_at').where({ name }).first();
  if (known !== undefined) return { id: known.id, name, isNew: false };
  const slug = await freeSlug(name, (each) => Partner.query(ctx.tx).where({ slug: each }).resultSize());
  const { id } = await createPartner(
    ctx,
    { name, slug },
    {
      clientAddressIsKnown: true,
      checkPins: assertRegisteredPins,
    },
  );
  await record(ctx, 'partner', { id, name, partnerId: id });
  return { id, name, isNew: true };
}

async function organizationNamed(ctx: Context, partnerId: string, name: string | undefined): Promise<Named> {
  const ofProvider = () =>
    Organization.query(ctx.tx).whereNull('organizations.deleted_at').where('partner_id', partnerId);
  if (name === undefined) return only(await ofProvider().limit(2), 'organization');
  const known = await ofProvider().where({ name }).first();
  if (known !== undefined) return { id: known.id, name, isNew: false };
  const slug = await freeSlug(name, (each) =>
    Organization.query(ctx.tx).where({ partner_id: partnerId, slug: each }).resultSize(),
  );
  const { id } = await createOrganization(ctx, { name, slug, partnerId }, assertRegisteredPins);
  await record(ctx, 'organization', { id, name, orgId: id, partnerId });
  return { id, name, isNew: true };
}

async function siteNamed(ctx: Context, orgId: string, name: string): Promise<Named> {
  const known = await Site.query(ctx.tx).where({ org_id: orgId, name }).first();
  if (known !== undefined) return { id: known.id, name, isNew: false };
  const { id } = await createSite(ctx, { orgId, name });
  await record(ctx, 'site', { id, name, orgId });
  return { id, name, isNew: true };
}

function only(present: readonly { id: string; name: string }[], what: 'provider' | 'organization'): Named {
  const [first, second] = present;
  if (first !== undefined && second === undefined) return { id: first.id, name: first.name, isNew: false };
  throw new Error(
    first === undefined
      ? `There is no ${what} yet. Name the one to create with --${what}.`
      : `There are several: say which ${what} with --${what}.`,
  );
}

async function freeSlug(name: string, uses: (slug: string) => Promise<number>): Promise<string> {
  for (const slug of slugCandidates(name)) if ((await uses(slug)) === 0) return slug;
  throw new Error(`Too many have a name like "${name}". Choose another one.`);
}

type Subject = { id: string; name: string; orgId?: string; partnerId?: string };

/** In the audit trail of the tenant that it belongs to. */
const record = ({ tx, log }: Context, resourceType: string, { id, name, orgId, partnerId }: Subject) =>
  recordAsOperator(tx, log, {
    action: `${resourceType}.create`,
    resourceType,
    resourceId: id,
    resourceName: name,
    orgId: orgId ?? null,
    partnerId: partnerId ?? null,
    details: { by: 'operator' },
  });

/** Acts as the administrator. */
const contextOf = (tx: Tx, log: Logger, { id, email, name }: Pick<User, 'id' | 'email' | 'name'>): Context =>
  contextAs(tx, log, {
    userId: id,
    email,
    name,
    scope: 'system',
    partnerId: null,
    orgId: null,
    orgAccess: 'all',
    orgIds: [],
    roleId: SYSTEM_ROLES.systemAdmin,
    roleName: 'System Admin',
    permissions: new Set(['*:*']),
    mfa: false,
    ipAllowlist: [],
  });
