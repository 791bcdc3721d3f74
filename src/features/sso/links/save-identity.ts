import { postgresError } from '../../../platform/db/database-errors.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { text } from '../../../platform/http/fields.ts';
import { newId } from '../../../platform/ids.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import { identityTokenContext } from '../sealed-columns.ts';
import type { AssertedIdentity } from '../sign-in/sso-protocol.ts';
import { SsoFailure } from '../sign-in/sso-failure.ts';
import { boundedProfile } from './bounded-profile.ts';
import { SsoIdentity } from './identity.model.ts';

/** Longer tokens are not stored; those of identity providers have a few thousand characters. */
const TOKEN_MAX = 16_384;
const Stored = text(255);

export interface IdentityToSave {
  sealer: Sealer;
  userId: string;
  provider: Pick<SsoProvider, 'id'>;
  identity: AssertedIdentity;
}

/**
 * Creates the link between an account and a person at an identity provider, or refreshes it: at every sign-in, and when
 * somebody links an identity from their profile. Of two that do so at once, one creates it and the other refreshes it.
 * Needs a transaction across tenants, and does not check who the person is.
 * @returns `moved` where the account was linked to another person of this provider until now
 * @throws SsoFailure  `identity_in_use` where the person at the provider is linked to another account
 */
export async function saveIdentity(
  tx: Tx,
  { sealer, userId, provider: { id: providerId }, identity }: IdentityToSave,
): Promise<'created' | 'refreshed' | 'moved'> {
  const externalId = identity.subject;
  if (!Stored.safeParse(externalId).success) {
    throw new SsoFailure('answer_invalid', 'the subject cannot be stored');
  }
  // Without its tokens, whose seal names the row. A row that another transaction is writing is waited for.
  const newRow = newId();
  await SsoIdentity.query(tx)
    .insert({ id: newRow, userId, providerId, externalId, profile: {} })
    .onConflict()
    .ignore();
  const link = await SsoIdentity.query(tx).findOne({ user_id: userId, provider_id: providerId }).forUpdate();
  const owner = await SsoIdentity.query(tx).findOne({ provider_id: providerId, external_id: externalId });
  if (link === undefined || (owner !== undefined && owner.id !== link.id)) {
    throw new SsoFailure('identity_in_use');
  }
  const isSamePerson = link.externalId === externalId;
  const update = link.$query(tx).patch({
    externalId,
    email: Stored.safeParse(identity.email).data ?? null,
    profile: boundedProfile(identity.profile),
    ...sealedTokens(sealer, link.id, identity.tokens),
    lastLoginAt: new Date(),
  });
  await update.catch((error: unknown) => {
    // Linked to another account since `owner` was read.
    if (postgresError(error)?.constraint !== 'user_sso_identities_provider_id_external_id_key') throw error;
    throw new SsoFailure('identity_in_use');
  });
  if (link.id === newRow) return 'created';
  return isSamePerson ? 'refreshed' : 'moved';
}

/** The tokens of this sign-in; those of an earlier one are forgotten. */
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
