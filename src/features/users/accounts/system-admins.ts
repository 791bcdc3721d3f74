import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { type AccountEnding, endCredentials } from './account-ending.ts';
import { SystemMembership } from './membership.model.ts';
import { findUserByEmail } from './user.service.ts';
import { SYSTEM_ROLES, User } from './user.model.ts';

/** What the operator of the installation can do about its administrators, without signing in. */

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

/** For an administrator who has lost the device with the codes. Returns whether there was a second factor. */
export function disableAdminMfa(db: Db, email: string, revoking: Revoking, record: Record): Promise<boolean> {
  return withSystem(db, 'remove the second factor of a system administrator', async (tx) => {
    const user = await lockedAdmin(tx, email);
    const removed = await tx('user_mfa').where({ user_id: user.id }).delete();
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
