import type { Context } from '../../platform/context.ts';
import { nameOrder, inTenant } from '../../platform/db/statement.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
import { isManageableSql } from '../organizations/index.ts';
import { whereOwnerAccessible } from '../owners/index.ts';
import { type Outcome, FAILING_DAYS, pauseMs, retryWaitMs } from './post.ts';
import { Webhook, DeliveryWithEvent } from './webhook.model.ts';
import type { Replay } from './webhook.schema.ts';
import { shortened } from '../../protocol/index.ts';

/** The webhooks that the caller may see. */
export const accessibleWebhooks = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  whereOwnerAccessible(Webhook.query(ctx.tx), ctx, 'webhooks');

/** The webhooks that the caller may see, by name. */
export const accessibleWebhooksByName = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  accessibleWebhooks(ctx).orderByRaw(`${nameOrder('name')}, id`);

/**
 * The deliveries of a webhook with their events, of the organizations that the caller may see.
 * @param statuses  only deliveries that have one of these
 */
export const deliveriesOf = ({ tx, caller }: Context, webhookId: string, statuses?: readonly string[]) =>
  DeliveryWithEvent.query(tx)
    .alias('d')
    .joinRelated('event', { alias: 'e' })
    .where('d.webhook_id', webhookId)
    .whereRaw(`(e.org_id is null or ${inTenant(caller, 'e.org_id')})`)
    .modify((deliveries) => {
      if (statuses !== undefined) void deliveries.whereRaw('d.status = any(?::text[])', [statuses]);
    })
    .select('d.*', {
      eventType: 'e.type',
      eventOrgId: 'e.org_id',
      eventAt: 'e.created_at',
      data: 'e.data',
    });

/**
 * Adds deliveries of the events of a span of time, each event once, except those with a pending delivery.
 * @returns  how many were added
 */
export async function addReplays(
  tx: Tx,
  { id: webhookId, partnerId, orgId }: Webhook,
  {
    from,
    to,
    statuses,
    eventTypes,
    limit,
  }: Required<Omit<Replay, 'eventTypes'>> & Pick<Replay, 'eventTypes'> & { limit: number },
): Promise<number> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `insert into webhook_deliveries (id, partner_id, org_id, webhook_id, event_id, is_replay, next_attempt_at)
    select new_row_id(), :partnerId, :orgId, :webhookId, event_id, true, now() from (
      select distinct d.event_id from webhook_deliveries d
      join webhook_events e on e.partner_id = d.partner_id and e.id = d.event_id
      where d.webhook_id = :webhookId and d.created_at between :from and :to and d.status = any(:statuses::text[])
        and (:eventTypes::text[] is null or e.type = any(:eventTypes::text[]))
        and not exists (select from webhook_deliveries waiting where waiting.webhook_id = :webhookId
          and waiting.event_id = d.event_id and waiting.status = 'pending')
      order by d.event_id limit :limit) as wanted`,
    {
      partnerId,
      // A value that may be null needs its type where it is selected.
      orgId: tx.raw('?::uuid', [orgId]),
      webhookId,
      from,
      to,
      statuses,
      eventTypes: eventTypes ?? null,
      limit,
    },
  );
  return rowCount;
}

/**
 * Makes webhooks due, in a transaction that has added deliveries to them. A separate statement locks the webhooks first, in
 * the order of their ids, like all other transactions: the next statement then sees what was written by a server that
 * released them at this moment and could not see the deliveries.
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

/** Ends the pending deliveries of a webhook. They can be replayed. Those that failed before keep the error of their last attempt. */
export async function failPendingDeliveries(tx: Tx, webhookId: string): Promise<void> {
  await tx('webhook_deliveries')
    .where({ webhook_id: webhookId, status: 'pending' })
    .update({
      status: 'failed',
      error: tx.raw('coalesce(error, ?)', ['The webhook was disabled before this was delivered.']),
      next_attempt_at: null,
      ended_at: tx.fn.now(),
    });
}

/** The number of events that one transaction takes. */
const BATCH = 500;
/** Pending deliveries of one webhook. Further events are only logged as failed while its receiver is away, and can be replayed. */
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
        -- A webhook that is deleted meanwhile takes these deliveries along.
        for key share of w
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

/** The number of webhooks of one partner that are served at a time, in the whole cluster. */
const OF_PARTNER_MAX = 8;

/** SQL: whether the owner of the webhook `w` is active. */
const HAS_OWNER = `case when w.org_id is null
  then exists (select from partners p where p.id = w.partner_id and p.deleted_at is null and p.status = 'active')
  else exists (select from organizations o where o.id = w.org_id and o.deleted_at is null and ${isManageableSql('o')})
  end`;

const IS_DUE = `w.enabled and w.due_at <= now() and (w.paused_until is null or w.paused_until <= now())
  and (w.lease_until is null or w.lease_until <= now())`;

/**
 * Takes webhooks whose deliveries are due, those that have waited the longest first. A lease ends by itself, so that
 * another server goes on if one has died.
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
      -- Repeated, because another server may have taken it since the beginning of the statement.
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

/** Ends the lease of the webhook, and sets when its next delivery is due. */
export async function releaseWebhook(db: Db, { id, leaseId }: Webhook): Promise<void> {
  await withSystem(db, 'release a webhook', async (tx) => {
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

export interface Due {
  id: string;
  attempts: number;
  eventId: string;
  type: string;
  orgId: string | null;
  data: unknown;
  createdAt: Date;
  isGone: boolean;
}

export const dueDeliveries = (db: Db, webhookId: string, limit: number): Promise<Due[]> =>
  withSystem(db, 'read the due deliveries of a webhook', async (tx) => {
    const { rows } = await tx.raw<{ rows: Due[] }>(
      `select d.id, d.attempts, e.id as "eventId", e.type, e.org_id as "orgId", e.data, e.created_at as "createdAt",
        o.deleted_at is not null as "isGone"
      from webhook_deliveries d
      join webhook_events e on e.partner_id = d.partner_id and e.id = d.event_id
      left join organizations o on o.id = e.org_id
      where d.webhook_id = ? and d.status = 'pending' and d.next_attempt_at <= now()
      order by d.next_attempt_at, d.id limit ?`,
      [webhookId, limit],
    );
    return rows;
  });

export interface Attempted {
  deliveryId: string;
  /** Says in which partition the delivery lies. */
  eventId: string;
  webhookId: string;
  /** Before this attempt. */
  attempts: number;
  eventOrgId: string | null;
}

/** Records an attempt in the webhook: its failures in a row, and the pause that follows. */
export async function recordWebhookAttempt(
  tx: Tx,
  { webhookId }: Attempted,
  { ok, retryAfterMs = 0 }: Outcome,
) {
  if (ok) {
    // Usually only the time changes, which is not needed to the second.
    await tx.raw(
      `update webhooks set failures = 0, failing_since = null, paused_until = null, last_success_at = now()
      where id = ? and (failures > 0 or last_success_at is null or last_success_at < now() - interval '10 seconds')`,
      [webhookId],
    );
    return { count: 0, isForDays: false };
  }
  const { rows } = await tx.raw<{ rows: { failures: number; isForDays: boolean }[] }>(
    `update webhooks set failures = failures + 1, failing_since = coalesce(failing_since, now()) where id = ?
    returning failures, failing_since < now() - interval '${FAILING_DAYS} days' as "isForDays"`,
    [webhookId],
  );
  const [{ failures: count, isForDays } = { failures: 0, isForDays: false }] = rows;
  const waitMs = Math.max(pauseMs(count), retryAfterMs);
  if (waitMs > 0) {
    await tx.raw(
      `update webhooks set paused_until = greatest(paused_until, now() + ? * interval '1 millisecond') where id = ?`,
      [waitMs, webhookId],
    );
  }
  return { count, isForDays };
}

/** Records an attempt in the delivery: delivered, tried again later, or failed. */
export async function recordDeliveryAttempt(
  tx: Tx,
  { deliveryId, eventId, attempts }: Attempted,
  { ok, responseStatus, responseExcerpt, durationMs, error, retryAfterMs: asked = 0 }: Outcome,
): Promise<void> {
  const waitMs = ok ? undefined : retryWaitMs(attempts + 1, Math.random());
  const next =
    waitMs === undefined ? null : tx.raw(`now() + ? * interval '1 millisecond'`, [Math.max(waitMs, asked)]);
  await tx('webhook_deliveries')
    .where({ id: deliveryId, event_id: eventId, status: 'pending' })
    .update({
      status: ok ? 'delivered' : next === null ? 'failed' : 'pending',
      attempts: attempts + 1,
      last_attempt_at: tx.fn.now(),
      next_attempt_at: next,
      ended_at: next === null ? tx.fn.now() : null,
      response_status: responseStatus,
      response_excerpt: responseExcerpt,
      duration_ms: durationMs,
      error: error === null ? null : shortened(error, 300),
    });
}

/** Ends the delivery of an event that cannot be sent at all. */
export async function failDelivery(
  db: Db,
  { id, eventId }: Pick<Due, 'id' | 'eventId'>,
  error: string,
): Promise<void> {
  await withSystem(db, 'end a delivery that cannot be sent', (tx) =>
    tx('webhook_deliveries')
      .where({ id, event_id: eventId, status: 'pending' })
      .update({ status: 'failed', next_attempt_at: null, ended_at: tx.fn.now(), error }),
  );
}
