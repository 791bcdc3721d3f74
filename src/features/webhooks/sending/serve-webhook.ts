import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { GuardedFetch } from '../../../platform/outbound/guarded-fetch.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { eventType } from '../events/catalogue.ts';
import { signingSecrets } from '../requests/signing-secret.ts';
import type { Webhook } from '../subscriptions/webhook.model.ts';
import { type Message, post } from '../requests/post.ts';
import { giveUp, recordAttempt } from './record.ts';
import { FAILURES_BEFORE_PAUSE } from '../requests/retry-schedule.ts';

export interface ServeParts {
  db: Db;
  outbound: Pick<GuardedFetch, 'open'>;
  secrets: Sealer;
  log: Logger;
  onAttempt: (outcome: 'delivered' | 'failed') => void;
  signal: AbortSignal;
}

/** To one receiver at a time. */
const AT_ONCE = 4;
/** After so many deliveries, or so long, other webhooks have their turn. Both together end well within a lease. */
const TURN = 40;
const TURN_MS = 20_000;

interface Due {
  id: string;
  attempts: number;
  eventId: string;
  type: string;
  orgId: string | null;
  data: unknown;
  createdAt: Date;
  isGone: boolean;
}

/** Sends what is due of a webhook, for one turn. */
export async function serveWebhook(parts: ServeParts, webhook: Webhook): Promise<void> {
  const until = clock.monotonic() + TURN_MS;
  let { failures } = webhook;
  const isOver = () => parts.signal.aborted || clock.monotonic() > until;
  // A receiver that has failed before gets one request at a time, until one succeeds.
  const waiting = await readDue(parts.db, webhook.id, failures >= FAILURES_BEFORE_PAUSE ? 1 : TURN);
  const sender = async () => {
    for (let due = waiting.shift(); due !== undefined; due = waiting.shift()) {
      failures = await deliver(parts, webhook, due, failures);
      if (failures >= FAILURES_BEFORE_PAUSE || isOver()) waiting.length = 0;
    }
  };
  const senders = await Promise.allSettled(Array.from({ length: failures === 0 ? AT_ONCE : 1 }, sender));
  const broken = senders.find((one) => one.status === 'rejected');
  if (broken !== undefined) throw broken.reason;
}

const readDue = (db: Db, webhookId: string, limit: number): Promise<Due[]> =>
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

/** Answers how many attempts have failed in a row. */
async function deliver(parts: ServeParts, webhook: Webhook, due: Due, failures: number): Promise<number> {
  const { db, outbound, secrets, signal, onAttempt } = parts;
  const message = messageOf(due);
  if (typeof message === 'string') {
    await giveUp(db, due.id, message);
    return failures;
  }
  const destination = { url: webhook.url, secrets: signingSecrets(secrets, webhook, clock.date()) };
  const outcome = await post(outbound, destination, message, signal);
  onAttempt(outcome.ok ? 'delivered' : 'failed');
  return recordAttempt(
    db,
    { deliveryId: due.id, webhookId: webhook.id, attempts: due.attempts, eventOrgId: due.orgId },
    outcome,
  );
}

/** What is sent, or why nothing is. */
function messageOf({ eventId: id, type, createdAt, orgId, data, isGone }: Due): Message | string {
  if (isGone) return 'The organization was deleted.';
  const parsed = eventType(type)?.data.safeParse(data);
  if (parsed?.success !== true) return 'This release of the server cannot read the event.';
  return { id, type, createdAt: createdAt.toISOString(), orgId, data: parsed.data };
}
