import type { Tx } from '../../../platform/db/transaction.ts';
import { isDomainProven } from '../domains/domain.service.ts';
import { addressForms, emailDomain } from '../flow/asserted-text.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import type { AccountFacts, Candidate } from './account-decision.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';

type Owner = Pick<SsoProvider, 'id' | 'orgId' | 'partnerId'>;

const IS_MEMBER = `(
  exists (select from organization_users m where m.user_id = u.id and m.org_id = :orgId::uuid)
  or exists (select from partner_users m where m.user_id = u.id and m.partner_id = :partnerId::uuid))`;

/**
 * Reads what the database knows about an asserted identity. Needs a transaction across tenants. Locks the accounts, so
 * that they do not change before the transaction ends.
 */
export async function accountFacts(
  tx: Tx,
  provider: Owner,
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
    byEmail: await candidate(tx, provider, 'where lower(u.email) = any(:texts)', addressForms(email)),
    isDomainProven: domain !== undefined && (await isDomainProven(tx, provider, domain)),
  };
}

async function candidate(
  tx: Tx,
  { id: providerId, orgId, partnerId }: Owner,
  found: string,
  texts: readonly string[],
): Promise<Candidate | undefined> {
  const { rows } = await tx.raw<{ rows: Candidate[] }>(
    `select u.id as "userId", u.status = 'active' as "isActive", ${IS_MEMBER} as "isMember" from users u ${found}
    order by u.email for update of u`,
    // Knex has no type for a null among named values.
    { providerId, orgId, partnerId, texts: [...texts] } as Record<string, string | string[]>,
  );
  return rows[0];
}
