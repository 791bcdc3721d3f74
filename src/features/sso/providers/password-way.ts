import type { Tx } from '../../../platform/db/transaction.ts';
import { EVERYTHING } from '../../roles/index.ts';
import type { SignInFacts } from '../../users/index.ts';
import type { SsoProvider } from './provider.model.ts';

/** The sign-in with a password that remains possible while single sign-on is enforced (SHAPES 9). */

type Owner = Pick<SsoProvider, 'orgId' | 'partnerId'>;

/** Whether a break-glass person can sign in without the provider, and has the permissions to repair its settings. */
export function hasPasswordWay(
  { partnerId }: Owner,
  { status, permissions, hasPassword, mfaEnabled }: SignInFacts,
): boolean {
  const isEnough = partnerId === null || mfaEnabled;
  return status === 'active' && permissions.includes(EVERYTHING) && hasPassword && isEnough;
}

/**
 * Serializes two kinds of change that together could leave no usable break-glass person: switching enforcement on, and
 * changing such a person. Each has to take this lock before it reads the data that the other changes.
 */
export async function lockPasswordWay(tx: Tx, { orgId, partnerId }: Owner): Promise<void> {
  const lock = `password way of ${partnerId ?? orgId ?? ''}`;
  await tx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [lock]);
}
