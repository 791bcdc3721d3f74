import { addressKey } from '../../email-address.ts';
import type { Caller, PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { assertAddressAllowed, findCaller, lockOpenSession } from '../auth/index.ts';
import { type SsoProvider, isOfOwner, identityTokenContext, SsoIdentity } from './sso.model.ts';
import type { AssertedIdentity } from './sso-protocol.ts';
import { SsoFailure } from './sso-failure.ts';
import { clock } from '../../clock.ts';
import { postgresError } from '../../platform/db/database-errors.ts';
import { text, AnyJsonInput } from '../../platform/http/fields.ts';

interface LinkParts {
  secrets: Encryptor;
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
  const outcome = await saveIdentity(tx, { encryptor: secrets, userId, provider, identity });
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
    await lockOpenSession({ tx, caller });
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

/** The maximum length of the stored profile as JSON, in characters. */
const PROFILE_MAX = 16_384;

/**
 * Selects the claims to be stored: in the order of the provider, as many as fit. Claims that the database cannot store,
 * or that are nested too deeply, are left out.
 */
export function boundedProfile(profile: Readonly<Record<string, unknown>>): Record<string, unknown> {
  let left = PROFILE_MAX;
  const kept: [string, unknown][] = [];
  for (const [name, value] of Object.entries(profile)) {
    if (!AnyJsonInput.safeParse({ [name]: value }).success) continue;
    const size = JSON.stringify({ [name]: value }).length;
    if (size > left) continue;
    left -= size;
    kept.push([name, value]);
  }
  return Object.fromEntries(kept);
}

/** Longer tokens are not stored. Usual tokens have a few thousand characters. */
const TOKEN_MAX = 16_384;

const Stored = text(255);

interface IdentityToSave {
  encryptor: Encryptor;
  userId: string;
  provider: Pick<SsoProvider, 'id'>;
  identity: AssertedIdentity;
}

/**
 * Creates or updates the link between an account and a subject of an identity provider. This happens at every sign-in,
 * and when a person links an identity in their profile. If two calls come at once, one creates the link and the other
 * updates it. Needs a transaction across tenants. The caller has to check that the account belongs to the subject.
 * @returns `moved` if the account was linked to another subject of this provider before
 * @throws SsoFailure  `identity_in_use` if the subject is linked to another account
 */
export async function saveIdentity(
  tx: Tx,
  { encryptor, userId, provider: { id: providerId }, identity }: IdentityToSave,
): Promise<'created' | 'refreshed' | 'moved'> {
  const externalId = identity.subject;
  if (!Stored.safeParse(externalId).success) {
    throw new SsoFailure('answer_invalid', 'the subject cannot be stored');
  }
  const key = { userId, providerId, externalId };
  const known = await linkOf(tx, key);
  const { link, isNew } = known === undefined ? await createdLink(tx, key) : { link: known, isNew: false };
  const isSamePerson = link.externalId === externalId;
  const update = link.$query(tx).patch({
    externalId,
    email: Stored.safeParse(identity.email).data ?? null,
    profile: boundedProfile(identity.profile),
    ...sealedTokens(encryptor, link.id, identity.tokens),
    lastLoginAt: clock.date(),
  });
  await update.catch((error: unknown) => {
    // Another transaction has linked the subject to another account since the link was read.
    if (postgresError(error)?.constraint !== 'user_sso_identities_provider_id_external_id_key') throw error;
    throw new SsoFailure('identity_in_use');
  });
  if (isNew) return 'created';
  return isSamePerson ? 'refreshed' : 'moved';
}

interface LinkKey {
  userId: string;
  providerId: string;
  externalId: string;
}

/** Returns and locks the link of an account to a provider. Throws if the subject is linked to another account. */
async function linkOf(tx: Tx, { userId, providerId, externalId }: LinkKey): Promise<SsoIdentity | undefined> {
  const links = await SsoIdentity.query(tx)
    .where('provider_id', providerId)
    .where((either) => void either.where('user_id', userId).orWhere('external_id', externalId))
    .forUpdate();
  if (links.some((link) => link.userId !== userId)) throw new SsoFailure('identity_in_use');
  return links[0];
}

/**
 * Inserts the link without tokens, because sealing them needs the row's id. Waits if another transaction inserts the
 * same row, whose link is returned then.
 */
async function createdLink(tx: Tx, key: LinkKey): Promise<{ link: SsoIdentity; isNew: boolean }> {
  const { id } = await SsoIdentity.query(tx)
    .insert({ ...key, profile: {} })
    .onConflict()
    .ignore();
  const link = await linkOf(tx, key);
  if (link === undefined) throw new SsoFailure('identity_in_use');
  return { link, isNew: link.id === id };
}

/** The sealed tokens of this sign-in. Missing tokens become null, which deletes those of an earlier sign-in. */
function sealedTokens(encryptor: Encryptor, identityId: string, tokens: AssertedIdentity['tokens']) {
  const sealed = (column: 'access_token' | 'refresh_token', token: string | undefined) =>
    token === undefined || token.length > TOKEN_MAX
      ? null
      : encryptor.seal(token, identityTokenContext(column, identityId));
  return {
    accessToken: sealed('access_token', tokens?.accessToken),
    refreshToken: sealed('refresh_token', tokens?.refreshToken),
    tokenExpiresAt: tokens?.expiresAt ?? null,
  };
}
