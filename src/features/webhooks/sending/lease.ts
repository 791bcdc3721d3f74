import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import { isManageableSql } from '../../organizations/index.ts';
import { Webhook } from '../subscriptions/webhook.model.ts';

/** Of one partner, in the whole cluster. */
const OF_PARTNER_MAX = 8;

/** Whether somebody still works with the owner of the webhook `w`. */
const HAS_OWNER = `case when w.org_id is null
  then exists (select from partners p where p.id = w.partner_id and p.deleted_at is null and p.status = 'active')
  else exists (select from organizations o where o.id = w.org_id and o.deleted_at is null and ${isManageableSql('o')})
  end`;

const IS_DUE = `w.enabled and w.due_at <= now() and (w.paused_until is null or w.paused_until <= now())
  and (w.lease_until is null or w.lease_until <= now())`;

/**
 * Takes webhooks whose deliveries are due, those that have waited the longest first. A lease ends by itself, so that
 * another server goes on where one has died.
 */
export async function claimWebhooks(
  db: Db,
  { free, leaseMs }: { free: number; leaseMs: number },
): Promise<Webhook[]> {
  return withSystem(db, 'take webhooks whose deliveries are due', async (tx) => {
    const { rows } = await tx.raw<{ rows: { id: string }[] }>(
      `with busy as (
        select partner_id, count(*) as webhooks from webhooks where lease_until > now() group by partner_id
      ), due as (
        select w.id, w.due_at, coalesce(busy.webhooks, 0)
          + row_number() over (partition by w.partner_id order by w.due_at, w.id) as place
        from webhooks w left join busy on busy.partner_id = w.partner_id
        where ${IS_DUE} and ${HAS_OWNER}
      )
      select w.id from webhooks w join due on due.id = w.id
      -- Said again, because another server may have taken it since the beginning of the statement.
      where ${IS_DUE} and due.place <= ${OF_PARTNER_MAX}
      order by due.due_at, w.id limit ? for no key update of w skip locked`,
      [free],
    );
    if (rows.length === 0) return [];
    const leaseUntil = tx.raw(`now() + ? * interval '1 millisecond'`, [leaseMs]);
    await tx('webhooks')
      .whereRaw('id = any(?::uuid[])', [rows.map(({ id }) => id)])
      .update({ lease_id: newId(), lease_until: leaseUntil });
    return Webhook.query(tx).findByIds(rows.map(({ id }) => id));
  });
}

/** Gives the webhook back, and says when its next delivery is due. */
export async function releaseWebhook(db: Db, { id, leaseId }: Webhook): Promise<void> {
  await withSystem(db, 'give back a webhook', async (tx) => {
    // Locked first: every transaction that adds a delivery locks it as well, so that the next statement sees all of them.
    const { rows } = await tx.raw<{ rows: object[] }>(
      'select from webhooks where id = ? and lease_id = ? for no key update',
      [id, leaseId ?? ''],
    );
    if (rows.length === 0) return;
    await tx.raw(
      `update webhooks set lease_id = null, lease_until = null, due_at = case when enabled then (
        select min(next_attempt_at) from webhook_deliveries where webhook_id = ? and status = 'pending') end
      where id = ?`,
      [id, id],
    );
  });
}

/**
 * To be called in a transaction that has added deliveries, after that. A statement of its own locks the webhooks first, in
 * the order of their ids, as everybody does: the next one then sees what was written by a server that gave them back in
 * this moment and could not see the deliveries.
 */
export async function wakeWebhooks(tx: Tx, webhookIds: readonly string[]): Promise<void> {
  const ids = [[...webhookIds]];
  await tx.raw('select from webhooks where id = any(?::uuid[]) order by id for no key update', ids);
  await tx.raw(
    `update webhooks set due_at = now()
    where id = any(?::uuid[]) and enabled and (due_at is null or due_at > now())`,
    ids,
  );
}
