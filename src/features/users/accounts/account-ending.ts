import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { removeMemberships } from './membership.queries.ts';
import { User } from './user.model.ts';
import { endSessionsOf } from './user-sessions.ts';

/** What has to be done for an account in features that stand above this one. */
export interface AccountEnding {
  /** Revokes every API key that the user has created. */
  revokeKeysOf(tx: Tx, userId: string): Promise<void>;
  /** Audits that an unverified account is given to another user. Call it before the membership is removed. */
  noteDisplaced(tx: Tx, ctx: Pick<PublicContext, 'client' | 'log'>, userId: string): Promise<void>;
  /** Audits that a user has left a tenant that cannot be used, in the trail of that tenant. */
  noteLeft(
    tx: Tx,
    ctx: Pick<PublicContext, 'client' | 'log'>,
    user: Pick<User, 'id' | 'email'>,
    tenant: { partnerId: string; orgId: string | null },
  ): Promise<void>;
}

/** Ends everything opened with the earlier credentials: sessions, links and keys. */
export async function endCredentials(
  tx: Tx,
  userId: string,
  reason: string,
  { revokeKeysOf }: Pick<AccountEnding, 'revokeKeysOf'>,
): Promise<void> {
  await forgetOpenLinks(tx, userId);
  await endSessionsOf(tx, userId, reason);
  await revokeKeysOf(tx, userId);
}

/** Deletes password resets and unfinished sign-ins. */
export async function forgetOpenLinks(tx: Tx, userId: string): Promise<void> {
  await tx('password_resets').where({ user_id: userId }).delete();
  await tx('mfa_challenges').where({ user_id: userId }).delete();
}

/**
 * Removes what somebody set up in an account with an unverified address, except credentials: their second factor would lock
 * the owner of the address out, and their invitations would stay open.
 */
export async function removeUnverifiedSetup(tx: Tx, userId: string): Promise<void> {
  await tx('user_mfa').where({ user_id: userId }).delete();
  await tx('membership_invitations').where({ invited_by: userId }).delete();
  await tx('registrations').where({ user_id: userId }).delete();
  await User.query(tx).findById(userId).patch({ mfaEnabled: false });
}

/** Empties an account with an unverified address, for the user who has proved the address. */
export async function resetUnverifiedAccount(
  tx: Tx,
  ctx: PublicContext,
  userId: string,
  ending: AccountEnding,
): Promise<void> {
  await ending.noteDisplaced(tx, ctx, userId);
  await endCredentials(tx, userId, 'address_claimed', ending);
  await removeUnverifiedSetup(tx, userId);
  await removeMemberships(tx, userId);
  await User.query(tx).findById(userId).patch({ status: 'active', lastLoginAt: null });
}
