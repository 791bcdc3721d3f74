import { AppError } from '../../../platform/errors.ts';
import type { BreakGlassGuard } from '../../users/index.ts';
import { hasUsable, lockBreakGlass } from '../providers/break-glass.ts';
import { enforcing } from './governs.queries.ts';

/** Each provider that is enforced keeps somebody of its own who can get in without it. */
export const breakGlassGuard: BreakGlassGuard = {
  async assertRemains(tx, { id, orgId, partnerId }) {
    if (orgId === null && partnerId === null) return;
    const owner = { orgId, partnerId };
    await lockBreakGlass(tx, owner);
    const naming = await enforcing(tx)
      .where(partnerId === null ? { org_id: orgId } : { partner_id: partnerId })
      .whereRaw('? = any(break_glass_user_ids)', [id]);
    for (const { name, breakGlassUserIds } of naming) {
      if (await hasUsable(tx, owner, breakGlassUserIds)) continue;
      throw new AppError(
        'conflict',
        `This is the last person who can sign in if ${name} fails. Name another one in the settings of that identity provider first.`,
      );
    }
  },
};
