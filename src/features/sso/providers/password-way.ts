import type { Tx } from '../../../platform/db/transaction.ts';
import { EVERYTHING } from '../../roles/index.ts';
import type { SignInFacts } from '../../users/index.ts';
import type { SsoProvider } from './provider.model.ts';

/** The way by password that stays open while single sign-on is enforced (SHAPES 9). */

type Owner = Pick<SsoProvider, 'orgId' | 'partnerId'>;

/** Whether a member whom a provider names can sign in without it, and repair what is wrong. */
export function hasPasswordWay(
  { partnerId }: Owner,
  { status, permissions, hasPassword, mfaEnabled }: SignInFacts,
): boolean {
  const isEnough = partnerId === null || mfaEnabled;
  return status === 'active' && permissions.includes(EVERYTHING) && hasPassword && isEnough;
}

/**
 * Serializes what could close that way from two sides: a provider that begins to be enforced, and a named person who stops
 * being usable. Each takes this lock before it reads what the other side writes.
 */
export async function lockPasswordWay(tx: Tx, { orgId, partnerId }: Owner): Promise<void> {
  const lock = `password way of ${partnerId ?? orgId ?? ''}`;
  await tx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [lock]);
}
