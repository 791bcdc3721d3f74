import type { WithSystem } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { hashPassword } from '../../../platform/secrets/passwords.ts';
import { SYSTEM_ROLES, User } from './user.model.ts';

/** Finds a person by address in any case; runs across tenants, since nobody is signed in yet. */
export async function findUserByEmail(tx: Tx, email: string): Promise<User | undefined> {
  return User.query(tx).whereRaw('lower(email) = lower(?)', [email]).first();
}

/** The first system administrator, on a database that has no user at all. Answers whether one was made. */
export async function createFirstAdmin(
  withSystem: WithSystem,
  { email, password }: { email: string; password: string },
): Promise<boolean> {
  if (await withSystem('whether there is any user', hasUsers)) return false;
  // Hashing takes a while, so it happens outside of any transaction.
  const passwordHash = await hashPassword(password);
  return withSystem('first administrator of an empty database', async (tx) => {
    // Two servers may start on the same empty database.
    await tx.raw('lock table users in share row exclusive mode');
    if (await hasUsers(tx)) return false;
    const user = await User.query(tx).insert({
      email,
      name: 'Administrator',
      passwordHash,
      status: 'active',
      // The operator has named it.
      emailVerifiedAt: new Date(),
    });
    await tx('system_users').insert({ user_id: user.id, role_id: SYSTEM_ROLES.systemAdmin });
    return true;
  });
}

async function hasUsers(tx: Tx): Promise<boolean> {
  const { rows } = await tx.raw('select exists (select from users) as present');
  return rows[0]?.present === true;
}
