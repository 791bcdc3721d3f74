import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { Partner } from './partner.model.ts';

/** The order in which a partner's organizations are listed: each person writes and sees the part that they can reach. */

/** What is stored for an order that was sent: what does not exist is dropped, and what the caller cannot see is kept. */
export async function orderToStore(
  ctx: Context,
  partner: Partner,
  sent: readonly string[],
): Promise<string[]> {
  const kept = orderOf(partner);
  const reachable = await reachableOf(ctx, partner.id, [...sent, ...kept]);
  return [
    ...new Set([...sent.filter((id) => reachable.has(id)), ...kept.filter((id) => !reachable.has(id))]),
  ];
}

/** A copy of the partner with no more of the order than the caller can see. */
export async function withReachableOrder(ctx: Context, partner: Partner): Promise<Partner> {
  const kept = orderOf(partner);
  if (kept.length === 0) return partner;
  const reachable = await reachableOf(ctx, partner.id, kept);
  const shown = partner.$clone();
  shown.settings = { ...partner.settings, organizationOrder: kept.filter((id) => reachable.has(id)) };
  return shown;
}

function orderOf({ settings }: Partner): string[] {
  const { organizationOrder: order } = settings;
  return Array.isArray(order) ? order.filter((id) => typeof id === 'string') : [];
}

async function reachableOf(
  ctx: Context,
  partnerId: string,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const found = await ctx
    .tx('organizations')
    .where({ partner_id: partnerId })
    .whereNull('deleted_at')
    .whereRaw(inTenant(ctx.caller, 'id'))
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .select<{ id: string }[]>('id');
  return new Set(found.map(({ id }) => id));
}
