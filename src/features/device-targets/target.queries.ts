import type { Query } from '../../platform/db/pool.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { visibleDevices, whereMatching, withPatternTimeout } from '../conditions/index.ts';
import { filterWithin, organizationOfFilter } from '../filters/index.ts';
import type { Owner } from '../owners/index.ts';
import type { DeviceTarget } from './target.schema.ts';

/** SQL: the organizations of the owner. The bindings are the partner and, twice, the organization or null. */
const OWNED = `select o.id from organizations o
  where o.partner_id = ? and o.deleted_at is null and (?::uuid is null or o.id = ?::uuid)`;
const owned = ({ partnerId, orgId }: Owner) => [partnerId, orgId, orgId];

/** The lists of ids that a target can have, and what one of each is. */
export const LISTS = {
  deviceIds: { table: `devices t on t.condition <> 'decommissioned' and`, noun: 'device' },
  groupIds: { table: 'device_groups t on', noun: 'group' },
  siteIds: { table: 'sites t on', noun: 'site' },
} as const;

/** The positions in the list, counted from 0, of ids that are none of the owner's. */
export async function positionsOutside(
  tx: Tx,
  owner: Owner,
  list: keyof typeof LISTS,
  ids: readonly string[],
): Promise<number[]> {
  const { rows } = await tx.raw<{ rows: { position: number }[] }>(
    `with owned as (${OWNED})
    select given.position::int - 1 as position
    from unnest(?::uuid[]) with ordinality as given (id, position)
    left join ${LISTS[list].table} t.id = given.id and t.org_id in (select id from owned)
    where t.id is null order by 1`,
    [...owned(owner), [...ids]] as never,
  );
  return rows.map(({ position }) => position);
}

/** Devices are found across tenants, and each query names the organizations. */
const SERVER: TenantScope = {
  scope: 'system',
  userId: null,
  partnerId: null,
  orgAccess: 'listed',
  orgIds: [],
};

/**
 * Runs a statement with the query of the devices that a target has now (`id`, `org_id`). A filter that is gone, or that no
 * longer fits the custom fields of its organization, finds no devices.
 * @param caller  who sees the devices; by default the transaction is one across tenants
 */
export async function withDevicesOfTarget<T>(
  tx: Tx,
  owner: Owner,
  target: DeviceTarget,
  run: (devices: Query) => PromiseLike<T>,
  caller: TenantScope = SERVER,
): Promise<T> {
  const devices = visibleDevices(tx, caller)
    .whereRaw(`d.org_id in (${OWNED})`, owned(owner) as never)
    .select('d.id', 'd.org_id');
  const { filterId, groupIds, siteIds, deviceIds } = target;
  if (deviceIds !== undefined) void devices.whereRaw('d.id = any(?::uuid[])', [deviceIds]);
  if (siteIds !== undefined) void devices.whereRaw('d.site_id = any(?::uuid[])', [siteIds]);
  if (groupIds !== undefined) {
    void devices.whereRaw(
      `exists (select from device_group_members m
        where m.org_id = d.org_id and m.device_id = d.id and m.group_id = any(?::uuid[]))`,
      [groupIds],
    );
  }
  if (filterId === undefined) return run(devices);
  const orgId = await organizationOfFilter(tx, filterId);
  const filter = orgId === undefined ? undefined : await filterWithin(tx, { orgId, filterId });
  if (orgId === undefined || filter?.conditions === undefined) return run(devices.whereRaw('false'));
  const { conditions } = filter;
  const matching = whereMatching(devices.where('d.org_id', orgId), conditions, { caller });
  return withPatternTimeout(tx, conditions, () => run(matching));
}
