import type { Tx } from '../../platform/db/transaction.ts';
import { hashPassword } from '../../platform/secrets/passwords.ts';
import { SYSTEM_ROLES, User } from './user.model.ts';

/** Finds a person by address in any case; runs across tenants, since nobody is signed in yet. */
export async function findUserByEmail(tx: Tx, email: string): Promise<User | undefined> {
  return User.query(tx).whereRaw('lower(email) = lower(?)', [email]).first();
}

/** The first system administrator, on a database that has no user at all. Answers whether one was made. */
export async function createFirstAdmin(tx: Tx, admin: { email: string; password: string }): Promise<boolean> {
  // Two servers may start on the same empty database.
  await tx.raw('lock table users in share row exclusive mode');
  const { rows } = await tx.raw('select exists (select from users) as present');
  if (rows[0]?.present === true) return false;
  const user = await User.query(tx).insert({
    email: admin.email,
    name: 'Administrator',
    passwordHash: await hashPassword(admin.password),
    status: 'active',
  });
  await tx('system_users').insert({ user_id: user.id, role_id: SYSTEM_ROLES.systemAdmin });
  return true;
}
