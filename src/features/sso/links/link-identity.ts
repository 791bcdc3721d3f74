import { addressKey } from '../../../email-address.ts';
import type { Caller, PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { assertAddressAllowed, findCaller, holdSession } from '../../auth/index.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import { isOfOwner } from './provider-owner.ts';
import { saveIdentity } from './save-identity.ts';

interface LinkParts {
  secrets: Sealer;
  audit: AuditTrail;
}

interface ProvedLink {
  provider: SsoProvider;
  /** The session in which the person asked for the link. */
  linkSessionId: string;
  identity: AssertedIdentity;
}

/**
 * Links a subject of an identity provider to the account whose session began this sign-in (SPEC 4.8). Needs a
 * transaction across tenants.
 * @throws SsoFailure  `user_gone`, `email_mismatch`, `identity_in_use`, and the reasons that refuse a sign-in as well
 */
export async function finishLink(
  tx: Tx,
  ctx: PublicContext,
  { provider, linkSessionId, identity }: ProvedLink,
  { secrets, audit }: LinkParts,
): Promise<{ userId: string }> {
  const caller = await callerOf(tx, ctx, linkSessionId);
  if (!isOfOwner(caller, provider)) {
    throw new SsoFailure('user_gone', 'the person is no longer a member of the owner of the provider');
  }
  if (identity.emailVerified === false) throw new SsoFailure('email_not_verified');
  if (identity.email === undefined || addressKey(identity.email) !== addressKey(caller.email)) {
    throw new SsoFailure('email_mismatch', `the provider names ${identity.email ?? 'no address'}`);
  }
  const { userId } = caller;
  const outcome = await saveIdentity(tx, { sealer: secrets, userId, provider, identity });
  await recordLink(tx, ctx, audit, { caller, provider, outcome });
  return { userId };
}

/** Audits that an account was linked to a subject of a provider. */
export async function recordLink(
  tx: Tx,
  ctx: PublicContext,
  audit: AuditTrail,
  {
    caller,
    provider,
    outcome,
  }: { caller: Caller; provider: SsoProvider; outcome: 'created' | 'refreshed' | 'moved' },
): Promise<void> {
  await audit.record(tx, {
    action: 'sso.identity.link',
    resourceType: 'user',
    resourceId: caller.userId,
    resourceName: caller.email,
    details: { provider: { id: provider.id, name: provider.name }, outcome },
    actor: caller,
    state: ctx,
  });
}

/** Returns the user of an open session, and locks the session so that it stays open until the transaction ends. */
async function callerOf(tx: Tx, { client, log }: PublicContext, sessionId: string) {
  try {
    const caller = await findCaller(tx, sessionId);
    if (caller === undefined) throw new SsoFailure('user_gone');
    await holdSession({ tx, caller });
    assertAddressAllowed(caller, client, log, 'request');
    return caller;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    switch (error.code) {
      case 'unauthenticated':
        throw new SsoFailure('user_gone', error.message);
      case 'partner_inactive':
        throw new SsoFailure('partner_inactive');
      case 'ip_not_allowed':
        throw new SsoFailure('address_not_allowed');
      default:
        throw error;
    }
  }
}
