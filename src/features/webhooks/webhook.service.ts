import { clock } from '../../clock.ts';
import type { RateLimiter, RateLimits } from '../../platform/cluster/rate-limits.ts';
import { type Context, type DetachedContext, holds } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { raiseAlert, resolveAlert } from '../alerts/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { lockOwner, type Owner, ownerOf } from '../owners/index.ts';
import { exceeds } from '../roles/index.ts';
import { EVENT_TYPES, type EventTypeName, knownTypes, PING, eventType } from './event-catalogue.ts';
import { post } from './post.ts';
import { newSigningSecret, sealAsPrevious, sealSecret, signingSecrets } from './signing.ts';
import { Webhook, Delivery } from './webhook.model.ts';
import {
  failPendingDeliveries,
  accessibleWebhooks,
  accessibleWebhooksByName,
  addReplays,
  deliveriesOf,
  wakeWebhooks,
} from './webhook.queries.ts';
import type {
  NewWebhook,
  Rotation,
  WebhookPatch,
  WebhookQuery,
  WebhookStatus,
  DeliveryQuery,
  Replay,
} from './webhook.schema.ts';

/** The number of webhooks of one organization, and of those of one partner itself. */
export const WEBHOOKS_MAX = 20;
const OVERLAP_HOURS = 24;
const NAME_TAKEN = 'Another webhook of the same owner has this name.';

export async function listWebhooks(ctx: Context, query: WebhookQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessibleWebhooksByName(ctx)
    .where(omitUndefined({ org_id: query.orgId }))
    .page(query.page - 1, query.limit);
  return toPage(query, { results: results.map(toWebhookResponse), total });
}

export async function findWebhook(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<Webhook> {
  const webhook = await accessibleWebhooks(ctx).findById(id);
  if (webhook === undefined) throw notFound('Webhook');
  return webhook;
}

async function lockWebhook(ctx: Context, id: string): Promise<Webhook> {
  const webhook = await accessibleWebhooks(ctx).findById(id).forUpdate();
  if (webhook === undefined) throw notFound('Webhook');
  if (webhook.orgId !== null) await assertManageable(ctx, webhook.orgId);
  return webhook;
}

export async function createWebhook(ctx: Context, { orgId, ...input }: NewWebhook, encryptor: Encryptor) {
  const owner = await ownerOf(ctx, orgId, 'create partner-wide webhooks');
  assertMayReceive(ctx, input.eventTypes, owner.orgId);
  await assertBelowLimit(ctx, owner);
  const id = newId();
  const secret = newSigningSecret();
  const webhook = await named(
    Webhook.query(ctx.tx).insertAndFetch({
      ...omitUndefined(input),
      ...owner,
      id,
      sealedSecret: sealSecret(encryptor, id, secret),
      createdBy: ctx.caller.userId,
    }),
  );
  return { ...toWebhookResponse(webhook), secret };
}

/** A user who decides where events are sent could read them there, and therefore needs the permission to read them. */
function assertMayReceive(
  { caller }: Pick<Context, 'caller'>,
  eventTypes: readonly EventTypeName[],
  orgId: string | null,
): void {
  const types = knownTypes(eventTypes).map((name) => ({ name, ...EVENT_TYPES[name] }));
  const foreign = types.find((type) => 'isOfPartner' in type && orgId !== null);
  if (foreign !== undefined) {
    throw invalid('body.eventTypes', `can have ${foreign.name} only without an organization`);
  }
  const missing = exceeds(caller.permissions, new Set(types.map(({ permission }) => permission)));
  if (missing.length > 0) {
    throw new AppError(
      'forbidden',
      `You cannot send events that you may not read yourself: ${missing.join(', ')} is needed.`,
    );
  }
}

async function assertBelowLimit({ tx }: Context, { partnerId, orgId }: Owner): Promise<void> {
  await lockOwner(tx, { partnerId, orgId });
  const present = await Webhook.query(tx).where({ partner_id: partnerId, org_id: orgId }).resultSize();
  if (present >= WEBHOOKS_MAX) {
    throw new AppError('limit_reached', `Webhook limit reached (${WEBHOOKS_MAX}).`);
  }
}

export async function updateWebhook(ctx: Context, id: string, patch: WebhookPatch) {
  const webhook = await lockWebhook(ctx, id);
  const changes = omitUndefined(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  const { eventTypes = webhook.eventTypes, enabled = webhook.enabled } = changes;
  if (changes.eventTypes !== undefined || changes.url !== undefined) {
    assertMayReceive(ctx, eventTypes, webhook.orgId);
  }
  const before = recorded(webhook);
  const updated = await named(
    webhook.$query(ctx.tx).patchAndFetch({
      ...changes,
      ...(enabled && !webhook.enabled ? AS_NEW : {}),
      // The new receiver has not failed yet.
      ...(changes.url !== undefined && changes.url !== webhook.url ? { pausedUntil: null } : {}),
    }),
  );
  if (enabled && !webhook.enabled) await endDisabledAlert(ctx.tx, webhook);
  if (!enabled && webhook.enabled) await failPendingDeliveries(ctx.tx, id);
  ctx.recordChange(before, recorded(updated));
  return { ...toWebhookResponse(updated), changedFields };
}

const AS_NEW = {
  disabledReason: null,
  alertedOrgId: null,
  failures: 0,
  failingSince: null,
  pausedUntil: null,
} as const;

const recorded = ({ name, url, eventTypes, enabled }: Webhook) => ({
  name,
  url: recordedUrl(url),
  eventTypes,
  enabled,
});

/** The URL as the audit trail records it: its host and a hash of the whole, because the path is often a secret of the receiver. */
export const recordedUrl = (url: string): string =>
  `${new URL(url).host} (SHA-256 ${tokenHash(url).slice(0, 8)}…)`;

export async function deleteWebhook(ctx: Context, id: string) {
  const webhook = await lockWebhook(ctx, id);
  await webhook.$query(ctx.tx).delete();
  await endDisabledAlert(ctx.tx, webhook);
  return { success: true as const, webhook };
}

/** A new secret. The old one signs beside it for a while, so that the receiver can change over without a gap. */
export async function rotateSecret(
  ctx: Context,
  id: string,
  { overlapHours = OVERLAP_HOURS }: Rotation,
  encryptor: Encryptor,
) {
  const webhook = await lockWebhook(ctx, id);
  assertMayReceive(ctx, webhook.eventTypes, webhook.orgId);
  const secret = newSigningSecret();
  const previous = overlapHours > 0 ? sealAsPrevious(encryptor, webhook) : null;
  const { sealedSecret, previousSecretUntil } = webhook;
  const updated = await webhook.$query(ctx.tx).patchAndFetch({
    sealedSecret: sealSecret(encryptor, id, secret),
    sealedPreviousSecret: previous,
    previousSecretUntil: previous === null ? null : new Date(clock.now() + overlapHours * 3_600_000),
  });
  // Shown as changed, without either secret.
  ctx.recordChange(
    { sealedSecret, previousSecretUntil },
    { sealedSecret: updated.sealedSecret, previousSecretUntil: updated.previousSecretUntil },
  );
  return { ...toWebhookResponse(updated), secret };
}

export function toWebhookResponse(webhook: Webhook) {
  const {
    id,
    orgId,
    partnerId,
    name,
    url,
    eventTypes,
    enabled,
    disabledReason,
    failures,
    failingSince,
    lastSuccessAt,
    previousSecretUntil,
    createdBy,
    createdAt,
    updatedAt,
  } = webhook;
  return {
    id,
    orgId,
    partnerId,
    name,
    url,
    eventTypes: knownTypes(eventTypes),
    enabled,
    status: statusOf(webhook),
    disabledReason,
    failures,
    failingSince,
    lastSuccessAt,
    previousSecretUntil:
      previousSecretUntil !== null && previousSecretUntil > clock.date() ? previousSecretUntil : null,
    createdBy,
    createdAt,
    updatedAt,
  };
}

function statusOf({ enabled, disabledReason, failures, pausedUntil }: Webhook): WebhookStatus {
  if (!enabled) return disabledReason === null ? 'disabled' : 'disabled_by_server';
  if (pausedUntil !== null && pausedUntil > clock.date()) return 'paused';
  return failures > 0 ? 'failing' : 'active';
}

const named = <T>(query: PromiseLike<T>) => namingConflict(query, 'webhooks_name', 'body.name', NAME_TAKEN);

/** Limits the pings to each webhook, so that they cannot be used to flood a receiver. */
export const webhookTestLimit = (limits: RateLimits): RateLimiter =>
  limits.limiter('webhook-test', { points: 10, seconds: 60 });

export interface TestParts {
  webhookFetch: Pick<GuardedFetch, 'open'>;
  webhookTestLimit: Pick<RateLimiter, 'take'>;
  secrets: Encryptor;
}

/** Sends a ping at once, also to a webhook that is disabled, and returns the outcome. */
export async function testWebhook(
  ctx: DetachedContext,
  id: string,
  { webhookFetch, webhookTestLimit: limit, secrets, signal }: TestParts & { signal: AbortSignal },
) {
  const webhook = await ctx.withTenant((inTenant) => lockWebhook(inTenant, id));
  await limit.take(id);
  const now = clock.date();
  const message = {
    id: newId(),
    type: PING,
    createdAt: now.toISOString(),
    orgId: webhook.orgId,
    data: { webhookId: id },
  };
  const destination = { url: webhook.url, secrets: signingSecrets(secrets, webhook, now) };
  const { retryAfterMs: _, ...outcome } = await post(webhookFetch, destination, message, signal);
  return { ...outcome, webhook };
}

const ALERT_KIND = 'webhook_disabled';

const REASONS = {
  gone: 'its receiver answered 410 Gone',
  failing: 'no delivery succeeded for days',
} as const;

/**
 * Disables a webhook whose receiver refuses further events, or cannot be reached for days, and raises an alert.
 * @param eventOrgId  the organization of the event that was to be sent last; null if it concerned the partner
 */
export async function disableWebhook(
  tx: Tx,
  webhookId: string,
  reason: keyof typeof REASONS,
  eventOrgId: string | null,
): Promise<void> {
  const [webhook] = await Webhook.query(tx)
    .where({ id: webhookId, enabled: true })
    .patch({ enabled: false, disabledReason: reason, dueAt: null, pausedUntil: null })
    .returning('*');
  if (webhook === undefined) return;
  await failPendingDeliveries(tx, webhookId);
  const orgId = webhook.orgId ?? eventOrgId ?? (await anyOrganization(tx, webhook.partnerId));
  if (orgId === undefined) return;
  // Members of the organization see the alert too, but not the names that the partner gave its own webhooks.
  const what = webhook.orgId === null ? 'A webhook of the service provider' : `The webhook "${webhook.name}"`;
  await raiseAlert(tx, {
    orgId,
    kind: ALERT_KIND,
    severity: 'high',
    title: `${what} was disabled`,
    message: `${what} was disabled, because ${REASONS[reason]}. Events are not sent to it until it is enabled again.`,
    details: { webhookId, reason },
  });
  await webhook.$query(tx).patch({ alertedOrgId: orgId });
}

/** The oldest organization of a partner: alerts belong to an organization. */
async function anyOrganization(tx: Tx, partnerId: string): Promise<string | undefined> {
  const first = await tx('organizations')
    .where('partner_id', partnerId)
    .whereNull('deleted_at')
    .orderBy('created_at')
    .first<{ id: string } | undefined>('id');
  return first?.id;
}

/** Resolves the alert, unless another webhook that the server has disabled shares it. */
async function endDisabledAlert(
  tx: Tx,
  { id, partnerId, alertedOrgId }: Pick<Webhook, 'id' | 'partnerId' | 'alertedOrgId'>,
): Promise<void> {
  if (alertedOrgId === null) return;
  const others = await Webhook.query(tx)
    .where({ partner_id: partnerId, alerted_org_id: alertedOrgId })
    .whereNot('id', id)
    .resultSize();
  if (others > 0) return;
  await resolveAlert(tx, {
    orgId: alertedOrgId,
    kind: ALERT_KIND,
    why: 'The webhook was enabled again or deleted.',
  });
}

/** The number of events that one request may send again. */
const REPLAY_MAX = 10_000;

export async function listDeliveries(ctx: Context, webhookId: string, query: DeliveryQuery) {
  await findWebhook(ctx, webhookId);
  const deliveries = deliveriesOf(ctx, webhookId, query.status)
    .orderBy([
      { column: 'd.created_at', order: 'desc' },
      { column: 'd.id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
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
  const webhook = await lockToReplay(ctx, webhookId);
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
  const webhook = await lockToReplay(ctx, webhookId);
  const replayed = await addReplays(ctx.tx, webhook, {
    from,
    to,
    statuses,
    eventTypes,
    limit: REPLAY_MAX + 1,
  });
  if (replayed > REPLAY_MAX) {
    throw new AppError(
      'limit_reached',
      `More than ${REPLAY_MAX} events would be sent again. Choose a shorter span of time.`,
    );
  }
  if (replayed > 0) await wakeWebhooks(ctx.tx, [webhookId]);
  return { webhook, replayed };
}

async function lockToReplay(ctx: Context, webhookId: string): Promise<Webhook> {
  const webhook = await lockWebhook(ctx, webhookId);
  if (!webhook.enabled) throw new AppError('conflict', 'The webhook is disabled. Enable it first.');
  return webhook;
}
