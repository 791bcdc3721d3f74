import { clock } from '../../../clock.ts';
import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import type { AuthService } from '../../auth/index.ts';
import { addMembership, User } from '../../users/index.ts';
import { recordLink } from '../links/link-identity.ts';
import { saveIdentity } from '../links/save-identity.ts';
import { defaultRoleStands } from '../providers/default-role.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import { type AccountDecision, decideAccount } from './account-decision.ts';
import { accountFacts } from './account-facts.ts';
import { newExchangeCode } from './exchange.service.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';

export interface AdmissionParts {
  auth: Pick<AuthService, 'openForProvider'>;
  secrets: Sealer;
  audit: AuditTrail;
}

interface Arrival {
  provider: SsoProvider;
  identity: AssertedIdentity;
  /** Of the browser that has come back from the provider. */
  browserHash: string;
}

/**
 * Signs in a person whom a provider has identified: finds or creates the account, updates its link and opens a session.
 * Needs one transaction across tenants, so that a refusal undoes all of this.
 * @returns the code that the dashboard exchanges for tokens
 * @throws SsoFailure; AppError for reasons that refuse a sign-in with a password as well
 */
export async function admitPerson(
  tx: Tx,
  ctx: PublicContext,
  { provider, identity, browserHash }: Arrival,
  { auth, secrets, audit }: AdmissionParts,
): Promise<string> {
  const facts = await accountFacts(tx, provider, identity);
  const decision = decideAccount(provider, identity, facts);
  const userId =
    decision.kind === 'provision'
      ? await provision(tx, provider, decision, facts.isDomainProven)
      : decision.userId;
  const link = await saveIdentity(tx, { sealer: secrets, userId, provider, identity });
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
  if (defaultRoleId === null || !(await defaultRoleStands(tx, provider))) {
    throw new SsoFailure('default_role_invalid');
  }
  const user = await User.query(tx).insert({
    email,
    name: name.slice(0, 255),
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
