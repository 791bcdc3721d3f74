import { type Counted, trendPart } from '../trend-part.ts';

/** Devices in service, and how many of them are connected. Those that wait for approval are not in service yet. */
export const deviceTrend = trendPart({
  figures: { devices: 'last', devicesConnected: 'most' },
  async count(tx) {
    const { rows } = await tx.raw<{ rows: Counted<'devices' | 'devicesConnected'>[] }>(
      `select d.org_id as "orgId", count(*)::integer as devices,
        (count(*) filter (where p.state = 'connected'))::integer as "devicesConnected"
      from devices d left join device_presence p on p.device_id = d.id
      where d.condition not in ('pending', 'decommissioned') group by d.org_id`,
    );
    return rows;
  },
});
