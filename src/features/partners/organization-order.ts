import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { Partner } from './partner.model.ts';

/** The order in which a partner's organizations are listed: each user writes and sees the part that they can access. */

/**
 * Merges the order that a user wants for the organizations they can access with the stored one: all others follow, in
 * their stored order.
 */
export function mergeOrder(
  stored: readonly string[],
  wanted: readonly string[],
  accessible: ReadonlySet<string>,
): string[] {
  const ofUser = wanted.filter((id) => accessible.has(id));
  const ofOthers = stored.filter((id) => !accessible.has(id));
  return [...new Set([...ofUser, ...ofOthers])];
}

/** The stored order after the caller has sent one. Organizations that do not exist are dropped. */
export async function orderToStore(
  ctx: Context,
  partner: Partner,
  sent: readonly string[],
): Promise<string[]> {
  const stored = storedOrder(partner);
  return mergeOrder(stored, sent, await accessibleOf(ctx, partner.id, [...sent, ...stored]));
}

/** A copy of the partner with only the part of the order that the caller can access. */
export async function withAccessibleOrder(ctx: Context, partner: Partner): Promise<Partner> {
  const kept = storedOrder(partner);
  if (kept.length === 0) return partner;
  const accessible = await accessibleOf(ctx, partner.id, kept);
  const shown = partner.$clone();
  shown.settings = { ...partner.settings, organizationOrder: kept.filter((id) => accessible.has(id)) };
  return shown;
}

export function storedOrder({ settings }: Partner): string[] {
  const { organizationOrder: order } = settings;
  return Array.isArray(order) ? order.filter((id) => typeof id === 'string') : [];
}

async function accessibleOf(
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
