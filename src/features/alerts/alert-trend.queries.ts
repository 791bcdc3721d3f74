import { type Counted, trendPart } from '../trend-part.ts';

/** Alerts that are not resolved, and those that were raised on a day. */
export const alertTrend = trendPart({
  permission: 'alerts:read',
  figures: { alertsOpen: 'last', alertsRaised: 'during' },
  async count(tx, day) {
    const { rows } = await tx.raw<{ rows: Counted<'alertsOpen' | 'alertsRaised'>[] }>(
      `select org_id as "orgId", sum(open)::integer as "alertsOpen", sum(raised)::integer as "alertsRaised" from (
        select a.org_id, count(*) as open, 0 as raised from alerts a where a.status <> 'resolved' group by a.org_id
        union all
        select o.id, 0, count(*) from organizations o
        join alerts a on a.org_id = o.id and a.raised_at >= :from and a.raised_at < :to group by o.id) counts
      group by org_id`,
      { ...day },
    );
    return rows;
  },
});
