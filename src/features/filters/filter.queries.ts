import { clock } from '../../clock.ts';
import { type Context, holds } from '../../platform/context.ts';
import { nameOrder } from '../../platform/db/name-order.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import {
  withPatternTimeout,
  type Conditions,
  selectMatchable,
  STATUS_SQL,
  toMatchable,
  visibleDevices,
  whereMatching,
} from '../conditions/index.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import {
  EXPLAINED_MAX,
  type ExplainRequest,
  type PreviewedDevice,
  type PreviewRequest,
} from './filter.schema.ts';
import { checkedConditions, conditionsOf, readFilter } from './stored-conditions.ts';

export async function previewConditions(ctx: Context, { conditions, ...sample }: PreviewRequest) {
  assertMaySeeDevices(ctx);
  if (sample.orgId !== undefined) await assertOrganizationAccess(ctx, sample.orgId);
  return preview(ctx, await checkedConditions(ctx, conditions, 'body.conditions'), sample);
}

export async function previewFilter(ctx: Context, id: string, limit: number) {
  assertMaySeeDevices(ctx);
  const filter = await readFilter(ctx, id);
  return { ...(await preview(ctx, await conditionsOf(ctx, id), { limit })), filter };
}

/** Permission to read filters does not include permission to see the devices they find. */
function assertMaySeeDevices({ caller }: Context): void {
  if (!holds(caller.permissions, 'devices:read')) {
    throw new AppError('forbidden', 'This also requires the permission devices:read.');
  }
}

type Sample = Pick<PreviewRequest, 'limit' | 'orgId' | 'siteId'>;

/**
 * Covers all organizations of the caller unless one is named, in one statement so that the count and the devices are
 * consistent.
 */
async function preview({ caller, tx }: Context, conditions: Conditions, { limit, orgId, siteId }: Sample) {
  const now = clock.now();
  const within = omitUndefined({ 'd.org_id': orgId, 'd.site_id': siteId });
  const matching = whereMatching(
    visibleDevices(tx, caller)
      .where(within)
      .select('d.id', tx.raw(`${nameOrder('d.hostname')} as by_name`)),
    conditions,
    { caller, now },
  );
  const shown = tx
    .from(tx.from('found').select().orderBy(['by_name', 'id']).limit(limit).as('f'))
    .join('devices as d', 'd.id', 'f.id')
    .leftJoin('device_presence as p', 'p.device_id', 'd.id')
    .orderBy(['f.by_name', 'f.id'])
    .select(
      'd.id',
      'd.hostname',
      'd.display_name as displayName',
      'd.os_type as osType',
      tx.raw(`${STATUS_SQL} as status`),
      'p.last_seen_at as lastSeenAt',
    );
  const [found] = await withPatternTimeout(tx, conditions, () =>
    tx
      .withMaterialized('found', matching)
      .select<{ total: number; devices: PreviewedDevice[] }[]>(
        tx.raw('(select count(*)::int from found) as total'),
        tx.raw(`coalesce((select json_agg(s) from (?) as s), '[]') as devices`, [shown]),
      ),
  );
  return {
    data: {
      totalCount: found?.total ?? 0,
      devices: (found?.devices ?? []).map((device) => ({
        ...device,
        lastSeenAt: isoOrNull(device.lastSeenAt),
      })),
      evaluatedAt: new Date(now),
    },
    conditionCount: conditions.count,
  };
}

/** Times come as JSON from the database, in the zone of the connection. */
const isoOrNull = (time: unknown) => (typeof time === 'string' ? new Date(time) : null);

/** The result of each condition for one device, in its current state. */
export async function explain(ctx: Context, { conditions: given, filterId, deviceId }: ExplainRequest) {
  assertMaySeeDevices(ctx);
  const conditions = await asked(ctx, given, filterId);
  const [row] = await selectMatchable(
    visibleDevices(ctx.tx, ctx.caller).where('d.id', deviceId),
    conditions.reads,
  );
  if (row === undefined) throw notFound('Device');
  const device = toMatchable(row);
  const now = clock.now();
  return {
    data: {
      deviceId: device.id,
      matched: conditions.matches(device, now),
      conditions: conditions.explain(device, now, { atMost: EXPLAINED_MAX }),
      evaluatedAt: new Date(now),
    },
  };
}

async function asked(ctx: Context, given: unknown, filterId: string | undefined): Promise<Conditions> {
  if ((given === undefined) === (filterId === undefined)) {
    throw invalid(
      'body.filterId',
      'is required if conditions is missing, and not allowed otherwise',
      'Provide exactly one of conditions or filterId.',
    );
  }
  return filterId === undefined
    ? checkedConditions(ctx, given, 'body.conditions')
    : conditionsOf(ctx, filterId);
}
