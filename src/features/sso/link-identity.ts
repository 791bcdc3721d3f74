import { clock } from '../../../clock.ts';
import { postgresError } from '../../../platform/db/database-errors.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { text } from '../../../platform/http/fields.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import { identityTokenContext } from '../sealed-columns.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import { boundedProfile } from './bounded-profile.ts';
import { SsoIdentity } from './identity.model.ts';

/** Longer tokens are not stored. Usual tokens have a few thousand characters. */
const TOKEN_MAX = 16_384;
const Stored = text(255);

export interface IdentityToSave {
  sealer: Sealer;
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
  { sealer, userId, provider: { id: providerId }, identity }: IdentityToSave,
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
    ...sealedTokens(sealer, link.id, identity.tokens),
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
function sealedTokens(sealer: Sealer, identityId: string, tokens: AssertedIdentity['tokens']) {
  const sealed = (column: 'access_token' | 'refresh_token', token: string | undefined) =>
    token === undefined || token.length > TOKEN_MAX
      ? null
      : sealer.seal(token, identityTokenContext(column, identityId));
  return {
    accessToken: sealed('access_token', tokens?.accessToken),
    refreshToken: sealed('refresh_token', tokens?.refreshToken),
    tokenExpiresAt: tokens?.expiresAt ?? null,
  };
}
