import { owningDomains } from './domain.schema.ts';
import { lockByName, type Tx } from '../../platform/db/transaction.ts';
import { EVERYTHING, exceeds } from '../roles/index.ts';
import { type Owned, SsoDomain, SsoProvider } from './sso.model.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';
import { Organization } from '../organizations/index.ts';
import { Partner } from '../partners/index.ts';
import type { Candidate } from './account-decision.ts';

export type ProviderOwner = { orgId: string } | { partnerId: string };

const ownedBy = (owner: ProviderOwner) =>
  'orgId' in owner ? { org_id: owner.orgId } : { partner_id: owner.partnerId };

/** The provider that sign-ins of an organization or a partner use: the oldest active one (SPEC 4.8). */
export async function activeProviderOf(tx: Tx, owner: ProviderOwner): Promise<SsoProvider | undefined> {
  return SsoProvider.query(tx)
    .where({ ...ownedBy(owner), status: 'active' })
    .orderBy(['created_at', 'id'])
    .first();
}

/** The providers of the caller's partner and of the organizations that the caller can access. */
export function visibleProviders({ tx, caller }: { tx: Tx; caller: TenantScope }) {
  const providers = SsoProvider.query(tx);
  const { scope, partnerId } = caller;
  if (scope === 'system') return providers;
  return providers.where((either) => {
    void either.whereRaw(inTenant(caller, 'sso_providers.org_id'));
    if (partnerId !== null) void either.orWhere('sso_providers.partner_id', partnerId);
  });
}

/** All permissions that the members of an organization have, each once. Disabled members count, as they may return. */
export async function permissionsOfMembers(tx: Tx, orgId: string): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { permission: string }[] }>(
    `select distinct unnest(r.permissions) as permission
    from organization_users m join roles r on r.id = m.role_id where m.org_id = ? order by 1`,
    [orgId],
  );
  return rows.map(({ permission }) => permission);
}

/** The enforced providers, oldest first. */
export const enforcing = (tx: Tx) =>
  SsoProvider.query(tx).where({ status: 'active', enforce_sso: true }).orderBy(['created_at', 'id']);

/** The enforced providers of the person's partner or organization. Users of the system scope are never governed. */
export const providersGoverning = (tx: Tx, userId: string) =>
  enforcing(tx).whereRaw(
    `(partner_id = (select partner_id from partner_users where user_id = :userId)
      or org_id = (select org_id from organization_users where user_id = :userId))
    and not exists (select from system_users where user_id = :userId)`,
    { userId },
  );

export interface GovernedPerson {
  id: string;
  email: string;
  hasPassword: boolean;
}

/** The people whom a provider governs while it is enforced, in the order of their addresses. */
export async function peopleGovernedBy(
  tx: Tx,
  { orgId, partnerId }: Pick<SsoProvider, 'orgId' | 'partnerId'>,
): Promise<GovernedPerson[]> {
  const { rows } = await tx.raw<{ rows: GovernedPerson[] }>(
    `select u.id, u.email, u.password_hash is not null as "hasPassword" from users u
    where u.status = 'active' and not exists (select from system_users s where s.user_id = u.id)
      and (u.id in (select user_id from partner_users where partner_id = :partnerId)
        or u.id in (select user_id from organization_users where org_id = :orgId))
    order by lower(u.email)`,
    { orgId, partnerId },
  );
  return rows;
}

export interface Owner {
  kind: 'organization' | 'partner';
  name: string;
  orgId: string | null;
  /** The partner itself, or the partner of the organization: an organization's audit entries name both. */
  partnerId: string;
}

export async function ownerOf(
  tx: Tx,
  { orgId, partnerId }: Pick<SsoProvider, 'orgId' | 'partnerId'>,
): Promise<Owner> {
  if (partnerId !== null) {
    const { name } = await Partner.query(tx).findById(partnerId).throwIfNotFound();
    return { kind: 'partner', name, orgId: null, partnerId };
  }
  const organization = await Organization.query(tx)
    .findById(orgId ?? '')
    .throwIfNotFound();
  return { kind: 'organization', name: organization.name, orgId, partnerId: organization.partnerId };
}

/**
 * Serializes two kinds of change that together could leave no usable break-glass person: switching enforcement on, and
 * changing such a person. Each has to take this lock before it reads the data that the other changes.
 */
export async function lockPasswordSignIn(tx: Tx, { orgId, partnerId }: Owned): Promise<void> {
  const lock = `password way of ${partnerId ?? orgId ?? ''}`;
  await lockByName(tx, lock);
}

/** The addresses of a partner's active administrators. */
export async function administratorsOf(tx: Tx, partnerId: string | null): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { email: string }[] }>(
    `select u.email from partner_users p join users u on u.id = p.user_id join roles r on r.id = p.role_id
    where p.partner_id = :partnerId and u.status = 'active' and r.permissions @> array[:everything]`,
    { partnerId, everything: EVERYTHING },
  );
  return rows.map(({ email }) => email);
}

export type Provider = Pick<SsoProvider, 'id' | 'orgId' | 'partnerId' | 'configuredPermissions'>;

/** The permissions as a member of the owner; null if the person is none. */
const PERMISSIONS = `coalesce(
  (select r.permissions from organization_users m join roles r on r.id = m.role_id
    where m.user_id = u.id and m.org_id = :orgId::uuid),
  (select r.permissions from partner_users m join roles r on r.id = m.role_id
    where m.user_id = u.id and m.partner_id = :partnerId::uuid))`;

interface Found {
  userId: string;
  isActive: boolean;
  permissions: string[] | null;
}

export async function findCandidate(
  tx: Tx,
  { id: providerId, orgId, partnerId, configuredPermissions }: Provider,
  found: string,
  texts: readonly string[],
): Promise<Candidate | undefined> {
  const { rows } = await tx.raw<{ rows: Found[] }>(
    `select u.id as "userId", u.status = 'active' as "isActive", ${PERMISSIONS} as permissions from users u ${found}
    order by u.email for update of u`,
    // Knex has no type for a null among named values.
    { providerId, orgId, partnerId, texts: [...texts] } as Record<string, string | string[]>,
  );
  const [account] = rows;
  if (account === undefined) return undefined;
  const { userId, isActive, permissions } = account;
  const exceedsConfigurer =
    configuredPermissions !== null && exceeds(new Set(configuredPermissions), permissions ?? []).length > 0;
  return { userId, isActive, isMember: permissions !== null, exceedsConfigurer };
}

export interface CheckedDomain extends Pick<SsoDomain, 'id' | 'orgId' | 'domain' | 'token'> {
  partnerId: string;
  isOwnerDeleted: boolean;
}

/** The verified domains of all organizations, by their IDs. */
export async function verifiedDomains(
  tx: Tx,
  { after, limit }: { after: string | undefined; limit: number },
): Promise<CheckedDomain[]> {
  const { rows } = await tx.raw<{ rows: CheckedDomain[] }>(
    `select d.id, d.org_id as "orgId", d.domain, d.token, o.partner_id as "partnerId",
      o.deleted_at is not null or p.deleted_at is not null as "isOwnerDeleted"
    from sso_domains d join organizations o on o.id = d.org_id join partners p on p.id = o.partner_id
    where d.status = 'verified' and (?::uuid is null or d.id > ?::uuid) order by d.id limit ${limit}`,
    [after ?? null, after ?? null] as string[],
  );
  return rows;
}

/** The verified domain of an organization that is closest to a name: of several that own it, the longest. */
export const closestVerifiedDomain = (tx: Tx, name: string) =>
  SsoDomain.query(tx)
    .where('status', 'verified')
    .whereRaw('domain = any(?::text[])', [owningDomains(name)])
    .orderByRaw('length(domain) desc')
    .first();

/** An active provider, with the partner in whose audit trail its failures are recorded. */
export type CheckedProvider = SsoProvider & { trailPartnerId: string };

/** The active providers of all active tenants, in a random order. */
export const activeProviders = (tx: Tx): PromiseLike<CheckedProvider[]> =>
  SsoProvider.query(tx)
    .select('sso_providers.*', 'p.id as trail_partner_id')
    .joinRaw(`left join organizations o on o.id = sso_providers.org_id
      join partners p on p.id = coalesce(sso_providers.partner_id, o.partner_id)`)
    .where({ 'sso_providers.status': 'active', 'p.status': 'active' })
    .whereNull('o.deleted_at')
    .orderByRaw('random()')
    .castTo<CheckedProvider[]>();

/**
 * Counts one more failed check of a provider, or begins at 0 again. Returns undefined if the provider was changed
 * meanwhile. Does not use the model, which would set `updatedAt`.
 */
export async function countFailures(
  tx: Tx,
  { id, configVersion }: Pick<SsoProvider, 'id' | 'configVersion'>,
  outcome: 'ok' | 'failed',
): Promise<number | undefined> {
  const rows = await tx('sso_providers')
    .where({ id, status: 'active', config_version: configVersion })
    .update({ discovery_failures: tx.raw(outcome === 'ok' ? '0' : 'discovery_failures + 1') })
    .returning<{ discovery_failures: number }[]>('discovery_failures');
  return rows[0]?.discovery_failures;
}

/** Stores that a sign-in with the provider worked, unless its settings were changed meanwhile. */
export const recordSuccess = async (tx: Tx, { id, configVersion }: SsoProvider): Promise<void> => {
  await tx('sso_providers')
    .where({ id, config_version: configVersion })
    .update({ last_success_at: tx.fn.now() });
};

/** Stores that an assertion was used. Returns false if it was used before. */
export async function useAssertionOnce(
  tx: Tx,
  { providerId, hash, expiresAt }: { providerId: string; hash: string; expiresAt: Date },
): Promise<boolean> {
  const inserted = await tx('saml_used_assertions')
    .insert({ provider_id: providerId, assertion_hash: hash, expires_at: expiresAt })
    .onConflict()
    .ignore()
    .returning('provider_id');
  return inserted.length > 0;
}
