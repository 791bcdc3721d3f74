import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { isManageableSql } from '../../organizations/index.ts';
import { wakeWebhooks } from './lease.ts';

/** Events of one transaction. */
const BATCH = 500;
/** Of one webhook: what comes beyond that while its receiver is away is in its log only, and can be replayed. */
const WAITING_MAX = 10_000;

/**
 * Adds the deliveries of events that have none yet. Servers do this side by side: each takes events that no other one has.
 * Events of an organization that was deleted or suspended meanwhile are dropped.
 * @returns  whether there may be more
 */
export async function fanOut(db: Db): Promise<boolean> {
  return withSystem(db, 'add the deliveries of new webhook events', async (tx) => {
    const { rows } = await tx.raw<{ rows: { id: string }[] }>(
      `select id from webhook_events where fanned_out_at is null order by id limit ${BATCH} for update skip locked`,
    );
    if (rows.length === 0) return false;
    const ids = rows.map(({ id }) => id);
    const { rows: added } = await tx.raw<{ rows: { webhook_id: string }[] }>(
      `with wanted as (
        select e.id as event_id, w.id as webhook_id, w.partner_id, w.org_id from webhook_events e
        join webhooks w on w.partner_id = e.partner_id and (w.org_id is null or w.org_id = e.org_id)
          and w.enabled and e.type = any(w.event_types)
        left join organizations o on o.id = e.org_id
        where e.id = any(?::uuid[])
          and (e.org_id is null or o.deleted_at is null and ${isManageableSql('o')})
      ), room as (
        select w.webhook_id, (
          select count(*) from (
            select from webhook_deliveries d where d.webhook_id = w.webhook_id and d.status = 'pending'
            limit ${WAITING_MAX}) as waiting) < ${WAITING_MAX} as is_left
        from (select distinct webhook_id from wanted) w
      )
      insert into webhook_deliveries
        (id, partner_id, org_id, webhook_id, event_id, status, next_attempt_at, ended_at, error)
      select new_row_id(), w.partner_id, w.org_id, w.webhook_id, w.event_id,
        case when is_left then 'pending' else 'failed' end, case when is_left then now() end,
        case when not is_left then now() end,
        case when not is_left then 'Too many deliveries wait for this receiver.' end
      from wanted w join room using (webhook_id) order by w.event_id
      returning webhook_id`,
      [ids],
    );
    if (added.length > 0) await wakeWebhooks(tx, [...new Set(added.map(({ webhook_id: id }) => id))]);
    await tx.raw('update webhook_events set fanned_out_at = now() where id = any(?::uuid[])', [ids]);
    return rows.length === BATCH;
  });
}
