import { addressForms, emailDomain } from '../../../email-address.ts';
import { hasAddressIn } from '../../../platform/db/address-condition.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { exceeds } from '../../roles/index.ts';
import { isDomainProven } from '../domains/domain.service.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import type { AccountFacts, Candidate } from './account-decision.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';

type Provider = Pick<SsoProvider, 'id' | 'orgId' | 'partnerId' | 'configuredPermissions'>;

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

/**
 * Reads what the database knows about an asserted identity. Needs a transaction across tenants. Locks the accounts, so
 * that they do not change before the transaction ends.
 */
export async function accountFacts(
  tx: Tx,
  provider: Provider,
  { subject, email }: AssertedIdentity,
): Promise<AccountFacts> {
  const linked = await candidate(
    tx,
    provider,
    'join user_sso_identities i on i.user_id = u.id where i.provider_id = :providerId and i.external_id = any(:texts)',
    [subject],
  );
  // If there is a link, the account with the address does not matter.
  if (linked !== undefined || email === undefined) {
    return { linked, byEmail: undefined, isDomainProven: false };
  }
  const domain = emailDomain(email);
  return {
    linked,
    byEmail: await candidate(tx, provider, `where ${hasAddressIn('u.email', ':texts')}`, addressForms(email)),
    isDomainProven: domain !== undefined && (await isDomainProven(tx, provider, domain)),
  };
}

async function candidate(
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
