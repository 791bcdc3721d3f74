import { AppError } from '../../../platform/errors.ts';
import { type BreakGlassGuard, membersAmong } from '../../users/index.ts';
import { hasPasswordWay, lockPasswordWay } from '../providers/password-way.ts';
import { enforcing } from './governs.queries.ts';

/** Refuses changes of a person after which an enforced provider would have no usable break-glass person. */
export const breakGlassGuard: BreakGlassGuard = {
  async assertRemains(tx, { id, orgId, partnerId }) {
    if (orgId === null && partnerId === null) return;
    const owner = { orgId, partnerId };
    await lockPasswordWay(tx, owner);
    const naming = await enforcing(tx)
      .where(partnerId === null ? { org_id: orgId } : { partner_id: partnerId })
      .whereRaw('? = any(break_glass_user_ids)', [id]);
    for (const { name, breakGlassUserIds } of naming) {
      const named = await membersAmong(tx, owner, breakGlassUserIds);
      if (named.some((facts) => hasPasswordWay(owner, facts))) continue;
      throw new AppError(
        'conflict',
        `This is the last person who can sign in if ${name} fails. Add another break-glass person to that identity provider first.`,
      );
    }
  },
};
