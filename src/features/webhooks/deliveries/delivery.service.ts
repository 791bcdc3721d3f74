import { clock } from '../../../clock.ts';
import { type Context, holds } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { eventType } from '../events/catalogue.ts';
import { wakeWebhooks } from '../sending/lease.ts';
import { findToChange, findWebhook } from '../subscriptions/webhook.service.ts';
import type { Webhook } from '../subscriptions/webhook.model.ts';
import { Delivery, DeliveryWithEvent } from './delivery.model.ts';
import type { DeliveryQuery, Replay } from './delivery.schema.ts';

/** Of one request. */
const REPLAY_MAX = 10_000;

/** A person who sees only some organizations of the partner has no webhook of the partner, so no event of others. */
const deliveriesOf = ({ tx, caller }: Context, webhookId: string) =>
  DeliveryWithEvent.query(tx)
    .alias('d')
    .join('webhook_events as e', (on) => on.on('e.partner_id', 'd.partner_id').on('e.id', 'd.event_id'))
    .where('d.webhook_id', webhookId)
    .whereRaw(`(e.org_id is null or ${inTenant(caller, 'e.org_id')})`)
    .select('d.*', {
      eventType: 'e.type',
      eventOrgId: 'e.org_id',
      eventAt: 'e.created_at',
      data: 'e.data',
    });

export async function listDeliveries(ctx: Context, webhookId: string, query: DeliveryQuery) {
  await findWebhook(ctx, webhookId);
  const deliveries = deliveriesOf(ctx, webhookId)
    .orderBy([
      { column: 'd.created_at', order: 'desc' },
      { column: 'd.id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  if (query.status !== undefined) void deliveries.whereRaw('d.status = any(?::text[])', [query.status]);
  if (query.eventType !== undefined) void deliveries.where('e.type', query.eventType);
  if (query.from !== undefined) void deliveries.where('d.created_at', '>=', query.from);
  if (query.to !== undefined) void deliveries.where('d.created_at', '<=', query.to);
  return toPage(query, await deliveries);
}

export async function readDelivery(ctx: Context, webhookId: string, deliveryId: string) {
  await findWebhook(ctx, webhookId);
  const [delivery] = await deliveriesOf(ctx, webhookId).where('d.id', deliveryId);
  if (delivery === undefined) throw notFound('Delivery');
  const type = eventType(delivery.eventType);
  const mayRead = type !== undefined && holds(ctx.caller.permissions, type.permission);
  const parsed = mayRead ? type.data.safeParse(delivery.data) : undefined;
  return Object.assign(delivery, { data: parsed?.success === true ? parsed.data : null });
}

/** Sends the event of one delivery again, with the same id. */
export async function replayDelivery(ctx: Context, webhookId: string, deliveryId: string) {
  const webhook = await findToReplay(ctx, webhookId);
  const { status, eventId } = await readDelivery(ctx, webhookId, deliveryId);
  if (status === 'pending') throw new AppError('conflict', 'This delivery is still being tried.');
  const { id } = await Delivery.query(ctx.tx).insert({
    webhookId,
    eventId,
    partnerId: webhook.partnerId,
    orgId: webhook.orgId,
    isReplay: true,
    nextAttemptAt: clock.date(),
  });
  await wakeWebhooks(ctx.tx, [webhookId]);
  return { webhook, delivery: await readDelivery(ctx, webhookId, id) };
}

/** Sends the events of a span of time again, each once, except those that are being sent. */
export async function replayDeliveries(
  ctx: Context,
  webhookId: string,
  { from, to, statuses = ['failed'], eventTypes }: Replay,
) {
  const webhook = await findToReplay(ctx, webhookId);
  const { rowCount } = await ctx.tx.raw<{ rowCount: number }>(
    `insert into webhook_deliveries (id, partner_id, org_id, webhook_id, event_id, is_replay, next_attempt_at)
    select new_row_id(), :partnerId, :orgId, :webhookId, event_id, true, now() from (
      select distinct d.event_id from webhook_deliveries d
      join webhook_events e on e.partner_id = d.partner_id and e.id = d.event_id
      where d.webhook_id = :webhookId and d.created_at between :from and :to and d.status = any(:statuses::text[])
        and (:eventTypes::text[] is null or e.type = any(:eventTypes::text[]))
        and not exists (select from webhook_deliveries waiting where waiting.webhook_id = :webhookId
          and waiting.event_id = d.event_id and waiting.status = 'pending')
      order by d.event_id limit ${REPLAY_MAX + 1}) as wanted`,
    {
      partnerId: webhook.partnerId,
      // A value that may be null needs its type said where it is selected.
      orgId: ctx.tx.raw('?::uuid', [webhook.orgId]),
      webhookId,
      from,
      to,
      statuses,
      eventTypes: eventTypes ?? null,
    },
  );
  if (rowCount > REPLAY_MAX) {
    throw new AppError(
      'limit_reached',
      `More than ${REPLAY_MAX} events would be sent again. Choose a shorter span of time.`,
    );
  }
  if (rowCount > 0) await wakeWebhooks(ctx.tx, [webhookId]);
  return { webhook, replayed: rowCount };
}

async function findToReplay(ctx: Context, webhookId: string): Promise<Webhook> {
  const webhook = await findToChange(ctx, webhookId);
  if (!webhook.enabled) throw new AppError('conflict', 'The webhook is disabled. Enable it first.');
  return webhook;
}
