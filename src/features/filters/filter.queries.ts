import { SavedFilter } from './filter.model.ts';
import type { QueryBuilder } from 'objection';
import type { Context } from '../../platform/context.ts';
import { nameOrder, inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { haystackOf, searchOf } from '../search/index.ts';
import type { Use, PreviewedDevice, PreviewRequest } from './filter.schema.ts';
import { clock } from '../../clock.ts';
import {
  withPatternTimeout,
  type Conditions,
  STATUS_SQL,
  visibleDevices,
  whereMatching,
} from '../conditions/index.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';

/** A kind of record that can refer to a filter. The feature that owns these records provides it. */
export interface FilterReferrer {
  kind: string;
  /** Selects `id`, `name` and `org_id` of the records that refer to the filter whose id is the only parameter. */
  sql: string;
  /** Throws if the filters of an organization, as they now are in the transaction, break a rule of the records. */
  assertAllowed?: (tx: Tx, orgId: string) => Promise<void>;
}

/** The records that use the filter, as far as the caller can see them. */
export async function filterUsage(
  ctx: Context,
  filterId: string,
  referrers: readonly FilterReferrer[],
): Promise<Use[]> {
  if (referrers.length === 0) return [];
  const { rows } = await ctx.tx.raw<{ rows: Use[] }>(
    `select kind, id, name from (${referrers
      .map(
        ({ kind, sql }) =>
          `select '${kind}' as kind, used.id, used.name from (${sql}) as used where ${inTenant(ctx.caller, 'used.org_id')}`,
      )
      .join(' union all ')}) as uses order by kind, ${nameOrder('name')}, id`,
    referrers.map(() => filterId),
  );
  return rows;
}

export async function assertUnused(
  ctx: Context,
  filterId: string,
  referrers: readonly FilterReferrer[],
): Promise<void> {
  const uses = await filterUsage(ctx, filterId, referrers);
  if (uses.length === 0) return;
  const names = uses.slice(0, 3).map(({ kind, name }) => `${kind} ${name}`);
  const more = uses.length > names.length ? ` and ${uses.length - names.length} more` : '';
  throw new AppError('conflict', `This filter is used by ${names.join(', ')}${more}.`, { details: uses });
}

type Sample = Pick<PreviewRequest, 'limit' | 'orgId' | 'siteId'>;

/**
 * Covers all organizations of the caller unless one is named, in one statement so that the count and the devices are
 * consistent.
 */
export async function queryPreview(
  { caller, tx }: Context,
  conditions: Conditions,
  { limit, orgId, siteId }: Sample,
) {
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

export async function lockFilter(tx: Tx, id: string): Promise<void> {
  await tx.raw('select from saved_filters where id = ? for update', [id]);
}

/** The newest of the matching filters whose conditions together have at most so many bytes. */
export function newestUpTo(tx: Tx, matching: QueryBuilder<SavedFilter>, bytesMax: number) {
  const newest = 'created_at desc, id desc';
  return SavedFilter.query(tx)
    .from(
      matching
        .select('saved_filters.*', tx.raw(`sum(octet_length(conditions)) over (order by ${newest}) as bytes`))
        .as('saved_filters'),
    )
    .where('bytes', '<=', bytesMax)
    .orderByRaw(newest);
}

export const filterSearch = searchOf({ type: 'filters', permission: 'filters:read' }, (caller) => ({
  table: 'saved_filters',
  where: inTenant(caller, 's.org_id'),
  haystack: haystackOf('s.name', 's.description'),
  title: 's.name',
  description: 's.description',
  order: 'lower(s.name)',
}));
