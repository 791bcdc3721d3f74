import { lockUsers, removeMemberships, hasUsers } from './user.queries.ts';
import { clock } from '../../clock.ts';
import { addressForms } from '../../email-address.ts';
import type { WithSystem, PublicContext } from '../../platform/context.ts';
import { hasAddressIn } from '../../platform/db/statement.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { hashPassword } from '../../platform/secrets/passwords.ts';
import { SystemMembership, SYSTEM_ROLES, User } from './user.model.ts';
import type { Db } from '../../platform/db/pool.ts';
import { AppError, notFound } from '../../platform/errors.ts';

/** Finds a user by address, ignoring case and the form of the domain. Runs across tenants, because the caller is not signed in yet. */
export const findUserByEmail = (tx: Tx, email: string) =>
  User.query(tx)
    .whereRaw(hasAddressIn('email', '?'), [addressForms(email)])
    .first();

/** Creates the first system administrator on a database without users. Returns whether it created one. */
export async function createFirstAdmin(
  withSystem: WithSystem,
  { email, password }: { email: string; password: string },
): Promise<boolean> {
  if (await withSystem('whether there is any user', hasUsers)) return false;
  // Hashing takes time, so it happens outside any transaction.
  const passwordHash = await hashPassword(password);
  return withSystem('first administrator of an empty database', async (tx) => {
    // Two servers may start on the same empty database.
    await lockUsers(tx);
    if (await hasUsers(tx)) return false;
    const user = await User.query(tx).insert({
      email,
      name: 'Administrator',
      passwordHash,
      status: 'active',
      // The operator has named the address.
      emailVerifiedAt: clock.date(),
    });
    await SystemMembership.query(tx).insert({ userId: user.id, roleId: SYSTEM_ROLES.systemAdmin });
    return true;
  });
}

/** Ends a user's sessions, all or all but one. Returns how many. */
export async function endSessionsOf(
  tx: Tx,
  userId: string,
  reason: string,
  exceptSessionId?: string,
): Promise<number> {
  const sessions = tx('sessions').where({ user_id: userId }).whereNull('revoked_at');
  if (exceptSessionId !== undefined) void sessions.whereNot({ id: exceptSessionId });
  return sessions.update({ revoked_at: tx.fn.now(), revoked_reason: reason });
}

/** Work for an account in features above this one. */
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
  await deleteOpenLinks(tx, userId);
  await endSessionsOf(tx, userId, reason);
  await revokeKeysOf(tx, userId);
}

/** Deletes password resets and unfinished sign-ins. */
export async function deleteOpenLinks(tx: Tx, userId: string): Promise<void> {
  await tx('password_resets').where({ user_id: userId }).delete();
  await tx('mfa_challenges').where({ user_id: userId }).delete();
}

/**
 * Removes what a person set up in an account with an unverified address, except the password: their second factor would lock
 * the owner of the address out, their passkeys would let them in, and their invitations would stay open.
 */
export async function removeUnverifiedSetup(tx: Tx, userId: string): Promise<void> {
  await deleteSecondFactors(tx, userId);
  await tx('membership_invitations').where({ invited_by: userId }).delete();
  await tx('registrations').where({ user_id: userId }).delete();
  await User.query(tx).findById(userId).patch({ mfaEnabled: false });
}

/** Deletes the authenticator app with the recovery codes, and the passkeys. Returns how many rows there were. */
async function deleteSecondFactors(tx: Tx, userId: string): Promise<number> {
  const factors = await tx('user_mfa').where({ user_id: userId }).delete();
  return factors + (await tx('passkeys').where({ user_id: userId }).delete());
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

/** Actions of the operator on the administrators of the installation, without signing in. */

type Revoking = Pick<AccountEnding, 'revokeKeysOf'>;
/** Writes the audit entry in the transaction of the action. */
type Record = (tx: Tx, user: Pick<User, 'id' | 'email'>) => Promise<void>;

export function listSystemAdmins(db: Db): Promise<User[]> {
  return withSystem(db, 'list the system administrators', (tx) =>
    User.query(tx).whereIn('id', SystemMembership.query(tx).select('user_id')).orderByRaw('lower(email)'),
  );
}

export function createSystemAdmin(
  db: Db,
  { email, name, passwordHash }: { email: string; name: string; passwordHash: string },
  record: Record,
): Promise<User> {
  return withSystem(db, 'create a system administrator', async (tx) => {
    if ((await findUserByEmail(tx, email)) !== undefined) {
      throw new AppError('conflict', `There is a user ${email} already.`);
    }
    const user = await User.query(tx).insertAndFetch({
      email,
      name,
      passwordHash,
      status: 'active',
      // The operator has named the address.
      emailVerifiedAt: clock.date(),
    });
    await SystemMembership.query(tx).insert({ userId: user.id, roleId: SYSTEM_ROLES.systemAdmin });
    await record(tx, user);
    return user;
  });
}

/** Ends everything that was opened with the earlier password. A second factor stays. */
export function resetAdminPassword(
  db: Db,
  { email, passwordHash }: { email: string; passwordHash: string },
  revoking: Revoking,
  record: Record,
): Promise<User> {
  return withSystem(db, 'reset the password of a system administrator', async (tx) => {
    const user = await lockedAdmin(tx, email);
    await endCredentials(tx, user.id, 'password_reset', revoking);
    await User.query(tx).findById(user.id).patch({ passwordHash, status: 'active' });
    await record(tx, user);
    return user;
  });
}

/**
 * For an administrator who has lost the device with the codes, and the passkeys: all second factors go. Returns whether there
 * was one.
 */
export function disableAdminMfa(db: Db, email: string, revoking: Revoking, record: Record): Promise<boolean> {
  return withSystem(db, 'remove the second factor of a system administrator', async (tx) => {
    const user = await lockedAdmin(tx, email);
    const removed = await deleteSecondFactors(tx, user.id);
    if (removed === 0 && !user.mfaEnabled) return false;
    await User.query(tx).findById(user.id).patch({ mfaEnabled: false });
    await endCredentials(tx, user.id, 'mfa_disabled', revoking);
    await record(tx, user);
    return true;
  });
}

async function lockedAdmin(tx: Tx, email: string): Promise<User> {
  const found = await findUserByEmail(tx, email).forUpdate();
  const isAdmin = found !== undefined && (await SystemMembership.query(tx).findById(found.id)) !== undefined;
  if (found === undefined || !isAdmin) throw notFound(`System administrator ${email}`);
  return found;
}
