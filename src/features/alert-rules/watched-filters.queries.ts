import type { Tx } from '../../platform/db/transaction.ts';
import { withDevicesOfTarget } from '../device-targets/index.ts';

/** How late a device that begins or stops to match a filter counts for the rules. */
const AGAIN = `interval '2 minutes'`;

export interface DueFilter {
  filterId: string;
  orgId: string;
  partnerId: string;
}

/** Watches the filters that rules name, and no others. */
export async function followRules(tx: Tx): Promise<void> {
  const named = `select (r.target ->> 'filterId')::uuid from alert_rules r where jsonb_exists(r.target, 'filterId') and r.enabled`;
  await tx.raw(`delete from watched_filters where filter_id not in (${named})`);
  await tx.raw(
    `insert into watched_filters (filter_id, org_id)
    select f.id, f.org_id from saved_filters f where f.id in (${named}) on conflict do nothing`,
  );
}

/** The filter that was evaluated longest ago, locked, if it is due. */
export async function lockDue(
  tx: Tx,
  { without, startedAt }: { without: readonly string[]; startedAt: Date },
): Promise<DueFilter | undefined> {
  const { rows } = await tx.raw<{ rows: DueFilter[] }>(
    `select w.filter_id as "filterId", w.org_id as "orgId", o.partner_id as "partnerId"
    from watched_filters w join organizations o on o.id = w.org_id
    where w.evaluated_at < ?::timestamptz - ${AGAIN} and w.filter_id <> all(?::uuid[])
    order by w.evaluated_at limit 1 for update of w skip locked`,
    [startedAt, [...without]],
  );
  return rows[0];
}

/** Stores the devices that match a filter now. */
export async function storeMembers(tx: Tx, { filterId, orgId, partnerId }: DueFilter): Promise<void> {
  await withDevicesOfTarget(tx, { partnerId, orgId }, { filterId }, (devices) =>
    tx.raw(
      `with found as materialized (?), gone as (
        delete from watched_filter_members m where m.filter_id = ? and not exists (select from found f where f.id = m.device_id)
      )
      insert into watched_filter_members (filter_id, org_id, device_id)
      select ?::uuid, f.org_id, f.id from found f order by f.id on conflict do nothing`,
      [devices, filterId, filterId] as never,
    ),
  );
  await tx.raw('update watched_filters set evaluated_at = now() where filter_id = ?', [filterId]);
}
