import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { disableWebhook } from '../subscriptions/disabled.ts';
import type { Outcome } from '../requests/post.ts';
import { FAILING_DAYS, pauseMs, retryWaitMs } from '../requests/retry-schedule.ts';

export interface Attempted {
  deliveryId: string;
  webhookId: string;
  /** Before this attempt. */
  attempts: number;
  eventOrgId: string | null;
}

const GONE = 410;

/**
 * Records an attempt, and what follows from it for the webhook.
 * @returns  how many attempts have failed in a row
 */
export async function recordAttempt(db: Db, attempted: Attempted, outcome: Outcome): Promise<number> {
  return withSystem(db, 'record an attempt to deliver a webhook event', async (tx) => {
    const failures = await recordOfWebhook(tx, attempted, outcome);
    await recordOfDelivery(tx, attempted, outcome);
    if (outcome.ok) return 0;
    if (outcome.responseStatus === GONE) {
      await disableWebhook(tx, attempted.webhookId, 'gone', attempted.eventOrgId);
    } else if (failures.isForDays) {
      await disableWebhook(tx, attempted.webhookId, 'failing', attempted.eventOrgId);
    }
    return failures.count;
  });
}

async function recordOfWebhook(tx: Tx, { webhookId }: Attempted, { ok, retryAfterMs = 0 }: Outcome) {
  if (ok) {
    // Mostly there is nothing to change but the time, which is of no use to the second.
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

async function recordOfDelivery(
  tx: Tx,
  { deliveryId, attempts }: Attempted,
  { ok, responseStatus, responseExcerpt, durationMs, error, retryAfterMs: asked = 0 }: Outcome,
): Promise<void> {
  const waitMs = ok ? undefined : retryWaitMs(attempts + 1, Math.random());
  const next =
    waitMs === undefined ? null : tx.raw(`now() + ? * interval '1 millisecond'`, [Math.max(waitMs, asked)]);
  await tx('webhook_deliveries')
    .where({ id: deliveryId, status: 'pending' })
    .update({
      status: ok ? 'delivered' : next === null ? 'failed' : 'pending',
      attempts: attempts + 1,
      last_attempt_at: tx.fn.now(),
      next_attempt_at: next,
      ended_at: next === null ? tx.fn.now() : null,
      response_status: responseStatus,
      response_excerpt: responseExcerpt,
      duration_ms: durationMs,
      error: error?.slice(0, 300) ?? null,
    });
}

/** For an event that cannot be sent, however often it is tried. */
export async function giveUp(db: Db, deliveryId: string, error: string): Promise<void> {
  await withSystem(db, 'end a delivery that cannot be sent', (tx) =>
    tx('webhook_deliveries')
      .where({ id: deliveryId, status: 'pending' })
      .update({ status: 'failed', next_attempt_at: null, ended_at: tx.fn.now(), error }),
  );
}
