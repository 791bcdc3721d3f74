import type { Tx } from '../../../platform/db/transaction.ts';

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
