import type { Tx } from '../../platform/db/transaction.ts';
import type { Context } from '../../platform/context.ts';

/** The scope that a right has to cover: organizations of a partner, or the partner as a whole. */
interface Covered {
  partnerId: string | null;
  orgIds: readonly string[] | 'all';
}

/**
 * Whether a person has permissions in organizations now. For what was created by the right of one person and is used
 * later by another person, such as a link: it must not outlive that right. False without a user, for a person who is
 * disabled or removed, and for one who cannot reach the organizations any more. Needs a transaction across tenants.
 */
export async function stillHolds(
  tx: Tx,
  userId: string | null,
  { partnerId, orgIds }: Covered,
  permissions: readonly string[],
): Promise<boolean> {
  if (userId === null) return false;
  const { rows } = await tx.raw<{ rows: { holds: boolean }[] }>(
    'select person_still_holds(:userId, :partnerId, :orgIds, :permissions) as holds',
    // Knex has no type for a null among named values.
    {
      userId,
      partnerId,
      orgIds: orgIds === 'all' ? null : [...orgIds],
      permissions: [...permissions],
    } as Record<string, string | string[]>,
  );
  return rows[0]?.holds === true;
}

export async function isInUse(ctx: Context, id: string): Promise<boolean> {
  const { rows } = await ctx.tx.raw('select role_in_use(?) as used', [id]);
  return rows[0]?.used === true;
}
