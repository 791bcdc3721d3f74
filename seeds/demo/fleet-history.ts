import { clock, DAY_MS } from '../../src/clock.ts';
import type { Tx } from '../../src/platform/db/transaction.ts';
import { chance } from './time.ts';

/**
 * What would have been counted of each customer in the last month, for the trends on the overview. A fleet that grows
 * slowly, whose alerts are those of the alert history. Today is counted by the server itself.
 */

const DAYS = 30;
/** Of the devices: how many were there a month ago, are connected at the best hour, and are backed up each night. */
const SHARE_AT_FIRST = 0.85;
const SHARE_CONNECTED = 0.92;
const SHARE_BACKED_UP = 0.4;
const FAILED_NIGHT = 0.15;

export async function seedFleetHistory(tx: Tx): Promise<void> {
  const { rows } = await tx.raw<{
    rows: { orgId: string; devices: number; open: number; raised: number[] }[];
  }>(
    `select o.id as "orgId",
      (select count(*)::integer from devices d
        where d.org_id = o.id and d.condition not in ('pending', 'decommissioned')) as devices,
      (select count(*)::integer from alerts a where a.org_id = o.id and a.status <> 'resolved') as open,
      array(select (select count(*)::integer from alerts a where a.org_id = o.id and a.raised_at >= day
          and a.raised_at < day + interval '1 day')
        from generate_series(1, ${DAYS - 1}) ago
        cross join lateral (select date_trunc('day', now(), 'UTC') - make_interval(days => ago) as day) days
        order by ago) as raised
    from organizations o order by o.id`,
  );
  const days = rows.flatMap(({ orgId, devices, open, raised }, customer) =>
    raised.map((alerts, index) => {
      const ago = index + 1;
      const share = 1 - ((1 - SHARE_AT_FIRST) * ago) / DAYS;
      const inService = Math.round(devices * share);
      const backedUp = Math.round(inService * SHARE_BACKED_UP);
      const failed = backedUp > 0 && chance(customer, ago, 51) < FAILED_NIGHT ? 1 : 0;
      return {
        org_id: orgId,
        day: new Date(clock.now() - ago * DAY_MS).toISOString().slice(0, 10),
        devices: inService,
        devices_connected: Math.round(inService * (SHARE_CONNECTED - 0.06 * chance(customer, ago, 52))),
        alerts_open: open,
        alerts_raised: alerts,
        backups_completed: backedUp - failed,
        backups_failed: failed,
      };
    }),
  );
  if (days.length > 0) await tx('fleet_days').insert(days).onConflict(['org_id', 'day']).ignore();
}
