import { clock, DAY_MS } from '../../clock.ts';
import { type Context, holds } from '../../platform/context.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { PARTS } from './parts.ts';
import { dayOf, sumsByDay } from './trend.queries.ts';
import type { FleetTrends, TrendQuery } from './trend.schema.ts';

/** The figures of each day, without those that the caller may not read. */
export async function readTrends(ctx: Context, { orgId, days }: TrendQuery): Promise<FleetTrends> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const hidden = PARTS.filter(
    ({ permission }) => permission !== undefined && !holds(ctx.caller.permissions, permission),
  );
  const nothing = Object.fromEntries(
    hidden.flatMap(({ figures }) => Object.keys(figures)).map((name) => [name, null]),
  );
  const from = dayOf(clock.now() - (days - 1) * DAY_MS);
  const sums = await sumsByDay(ctx, { orgId, from });
  return {
    data: sums.map((day) => ({ ...day, ...nothing })),
    countedAt: sums.at(-1)?.countedAt ?? null,
  };
}
