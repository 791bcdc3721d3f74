import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { removeMemberships } from '../members/membership.service.ts';
import { User } from './user.model.ts';
import { endSessionsOf } from './user-sessions.ts';

/** What an account leaves in features that stand above this one. */
export interface AccountEnding {
  /** Revokes every API key that the person has made. */
  revokeKeysOf(tx: Tx, userId: string): Promise<void>;
  /** Writes to the trail of the place that the account is about to leave. Before it does. */
  noteDisplaced(tx: Tx, ctx: Pick<PublicContext, 'client' | 'log'>, userId: string): Promise<void>;
}

/** Ends what was begun or opened with the credentials of before: sessions, links and keys. */
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

/** What was begun with the password of before, or to replace it. */
export async function forgetOpenLinks(tx: Tx, userId: string): Promise<void> {
  await tx('password_resets').where({ user_id: userId }).delete();
  await tx('mfa_challenges').where({ user_id: userId }).delete();
}

/**
 * Ends what somebody has set up in an account whose address they never proved to read: their second factor would lock
 * the owner out, and the people whom they invited would stay behind. Credentials apart.
 */
export async function endUnprovedHolding(tx: Tx, userId: string): Promise<void> {
  await tx('user_mfa').where({ user_id: userId }).delete();
  await tx('membership_invitations').where({ invited_by: userId }).delete();
  await tx('registrations').where({ user_id: userId }).delete();
  await User.query(tx).findById(userId).patch({ mfaEnabled: false });
}

/** Empties an account whose address nobody has proved, for the one who has. */
export async function displace(
  tx: Tx,
  ctx: PublicContext,
  userId: string,
  ending: AccountEnding,
): Promise<void> {
  await ending.noteDisplaced(tx, ctx, userId);
  await endCredentials(tx, userId, 'address_claimed', ending);
  await endUnprovedHolding(tx, userId);
  await removeMemberships(tx, userId);
  await User.query(tx).findById(userId).patch({ status: 'active', lastLoginAt: null });
}
