import { emailDomain } from '../../email-address.ts';
import type { SsoProvider } from './sso.model.ts';
import { SsoFailure } from './sso-failure.ts';
import type { AssertedIdentity } from './sso-protocol.ts';

/** An account that a provider's sign-in may open. */
export interface Candidate {
  userId: string;
  isActive: boolean;
  /** Whether the person is a member of the organization or partner that owns the provider. */
  isMember: boolean;
  /** The person has more permissions than the person who configured the provider last. */
  exceedsConfigurer?: boolean;
}

export interface AccountFacts {
  /** The account that the identity is linked to. */
  linked: Candidate | undefined;
  /** The account with the asserted address. */
  byEmail: Candidate | undefined;
  /** Whether the owner of the provider has proved that it owns the domain of the address. */
  isDomainProven: boolean;
}

export type AccountDecision =
  | { kind: 'sign_in'; userId: string }
  | { kind: 'provision'; email: string; name: string };

export type DecidingProvider = Pick<SsoProvider, 'orgId' | 'autoProvision' | 'allowedDomains'>;

/**
 * Decides which account an asserted identity opens (the sign-in rules of SPEC 4.8). A link has priority over the
 * address, because a provider may give the address of one person to another: that must not open the account of the
 * first person.
 * @throws SsoFailure
 */
export function decideAccount(
  provider: DecidingProvider,
  identity: AssertedIdentity,
  { linked, byEmail, isDomainProven }: AccountFacts,
): AccountDecision {
  assertAddressUsable(provider, identity);
  const account = linked ?? matched(provider, identity, byEmail, isDomainProven);
  if (account !== undefined) return { kind: 'sign_in', userId: usable(account).userId };
  if (provider.orgId === null) throw new SsoFailure('invitation_required');
  if (!provider.autoProvision) throw new SsoFailure('account_unknown');
  const email = identity.email ?? '';
  return { kind: 'provision', email, name: identity.name ?? email.slice(0, email.lastIndexOf('@')) };
}

function assertAddressUsable(
  { allowedDomains }: DecidingProvider,
  { email, emailVerified }: AssertedIdentity,
): void {
  if (emailVerified === false) throw new SsoFailure('email_not_verified');
  if (allowedDomains === '') return;
  const domain = email === undefined ? undefined : emailDomain(email);
  if (domain === undefined || !allowedDomains.split(',').includes(domain)) {
    throw new SsoFailure('domain_not_allowed');
  }
}

/**
 * Returns the account with the asserted address. Throws if the address cannot be trusted for a first sign-in. What a
 * provider says about an address is enough for a new account, which has the rights of the default role, but opens no
 * account that is there: the owner has to own the domain, or the person to link the identity in their profile.
 */
function matched(
  { orgId }: DecidingProvider,
  { email, emailVerified }: AssertedIdentity,
  byEmail: Candidate | undefined,
  isDomainProven: boolean,
): Candidate | undefined {
  if (email === undefined || emailDomain(email) === undefined) throw new SsoFailure('email_missing');
  if (byEmail?.isMember && byEmail.exceedsConfigurer) throw new SsoFailure('configurer_has_less');
  if (isDomainProven) return byEmail;
  if (orgId !== null && emailVerified === undefined) throw new SsoFailure('domain_not_proven');
  if (byEmail?.isMember) throw new SsoFailure('domain_not_proven');
  return byEmail;
}

function usable(account: Candidate): Candidate {
  if (!account.isMember) throw new SsoFailure('not_a_member');
  if (!account.isActive) throw new SsoFailure('account_disabled');
  return account;
}
