import { clock } from '../../../clock.ts';
import { addressForms } from '../../../email-address.ts';
import type { WithSystem } from '../../../platform/context.ts';
import { hasAddressIn } from '../../../platform/db/address-condition.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { hashPassword } from '../../../platform/secrets/passwords.ts';
import { SystemMembership } from './membership.model.ts';
import { SYSTEM_ROLES, User } from './user.model.ts';

/** Finds a user by address, ignoring case and the form of the domain. Runs across tenants, because nobody is signed in yet. */
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
    await tx.raw('lock table users in share row exclusive mode');
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

async function hasUsers(tx: Tx): Promise<boolean> {
  const { rows } = await tx.raw('select exists (select from users) as present');
  return rows[0]?.present === true;
}
