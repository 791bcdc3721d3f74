import { clock } from '../../clock.ts';
import type { PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import type { AuthService } from '../auth/index.ts';
import { addMembership, User } from '../users/index.ts';
import { recordLink, saveIdentity } from './link-identity.ts';
import { isDefaultRoleValid } from './provider-settings.ts';
import type { SsoProvider } from './sso.model.ts';
import { type AccountDecision, decideAccount, type AccountFacts } from './account-decision.ts';
import { newExchangeCode } from './sign-in-state.ts';
import { SsoFailure } from './sso-failure.ts';
import type { AssertedIdentity } from './sso-protocol.ts';
import { addressForms, emailDomain } from '../../email-address.ts';
import { hasAddressIn } from '../../platform/db/statement.ts';
import { isDomainProven } from './domain.service.ts';
import { type Provider, findCandidate } from './sso.queries.ts';
import { shortened } from '../../protocol/index.ts';

export interface ProvisioningParts {
  auth: Pick<AuthService, 'openForProvider'>;
  secrets: Encryptor;
  audit: AuditTrail;
}

interface IdentifiedPerson {
  provider: SsoProvider;
  identity: AssertedIdentity;
  /** Identifies the browser that has come back from the provider. */
  browserHash: string;
}

/**
 * Signs in a person whom a provider has identified: finds or creates the account, updates its link and opens a session.
 * Needs one transaction across tenants, so that a refusal undoes all of this.
 * @returns the code that the dashboard exchanges for tokens
 * @throws SsoFailure; AppError for reasons that refuse a sign-in with a password as well
 */
export async function signInOrProvision(
  tx: Tx,
  ctx: PublicContext,
  { provider, identity, browserHash }: IdentifiedPerson,
  { auth, secrets, audit }: ProvisioningParts,
): Promise<string> {
  const facts = await accountFacts(tx, provider, identity);
  const decision = decideAccount(provider, identity, facts);
  const userId =
    decision.kind === 'provision'
      ? await provision(tx, provider, decision, facts.isDomainProven)
      : decision.userId;
  const link = await saveIdentity(tx, { encryptor: secrets, userId, provider, identity });
  const { caller, refreshToken } = await auth.openForProvider(tx, ctx, userId, {
    mfa: false,
    provider: { id: provider.id, name: provider.name, mfa: provider.trustsIdpMfa && identity.mfa },
  });
  // The provider may have given the address to another person, so the audit trail has to show the change.
  if (link === 'moved') await recordLink(tx, ctx, audit, { caller, provider, outcome: link });
  return newExchangeCode(tx, secrets, { sessionId: caller.sessionId, refreshToken, browserHash });
}

/** Creates an account without a password, as a member of the provider's organization. */
async function provision(
  tx: Tx,
  provider: SsoProvider,
  { email, name }: Extract<AccountDecision, { kind: 'provision' }>,
  isDomainProven: boolean,
): Promise<string> {
  const { orgId, defaultRoleId } = provider;
  if (defaultRoleId === null || !(await isDefaultRoleValid(tx, provider))) {
    throw new SsoFailure('default_role_invalid');
  }
  const user = await User.query(tx).insert({
    email,
    name: shortened(name, 255),
    passwordHash: null,
    status: 'active',
    // Any tenant may configure a provider, so its statement alone does not prove the address. Until the address is
    // proved, its owner can take over the account.
    emailVerifiedAt: isDomainProven ? clock.date() : null,
  });
  const grant = { roleId: defaultRoleId, orgAccess: 'none' as const, orgIds: [] };
  await addMembership(tx, user.id, { partnerId: null, orgId }, grant);
  return user.id;
}

/**
 * Reads what the database knows about an asserted identity. Needs a transaction across tenants. Locks the accounts, so
 * that they do not change before the transaction ends.
 */
async function accountFacts(
  tx: Tx,
  provider: Provider,
  { subject, email }: AssertedIdentity,
): Promise<AccountFacts> {
  const linked = await findCandidate(
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
    byEmail: await findCandidate(
      tx,
      provider,
      `where ${hasAddressIn('u.email', ':texts')}`,
      addressForms(email),
    ),
    isDomainProven: domain !== undefined && (await isDomainProven(tx, provider, domain)),
  };
}
