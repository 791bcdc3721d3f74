import type { Tx } from '../../../platform/db/transaction.ts';
import { raiseAlert, resolveAlert } from '../../alerts/index.ts';
import { Webhook } from './webhook.model.ts';

const ALERT_KIND = 'webhook_disabled';

const REASONS = {
  gone: 'its receiver answered 410 Gone',
  failing: 'no delivery succeeded for days',
} as const;

/**
 * Disables a webhook whose receiver wants nothing more, or cannot be reached for days, and raises an alert.
 * @param eventOrgId  whose event was to be sent last; null where it concerned the partner
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
  await failWaiting(tx, webhookId);
  const orgId = webhook.orgId ?? eventOrgId ?? (await anyOrganization(tx, webhook.partnerId));
  if (orgId === undefined) return;
  // People of the organization see the alert too, and what their provider calls its webhooks is not for them.
  const what = webhook.orgId === null ? 'A webhook of the service provider' : `The webhook "${webhook.name}"`;
  await raiseAlert(tx, {
    orgId,
    kind: ALERT_KIND,
    severity: 'high',
    title: `${what} was disabled`,
    message: `${what} was disabled, because ${REASONS[reason]}. Events are not sent to it until somebody enables it again.`,
    details: { webhookId, reason },
  });
  await webhook.$query(tx).patch({ alertedOrgId: orgId });
}

/** Alerts belong to an organization. */
async function anyOrganization(tx: Tx, partnerId: string): Promise<string | undefined> {
  const first = await tx('organizations')
    .where('partner_id', partnerId)
    .whereNull('deleted_at')
    .orderBy('created_at')
    .first<{ id: string } | undefined>('id');
  return first?.id;
}

/** Resolves the alert, unless another webhook that the server has disabled shares it. */
export async function endDisabledAlert(
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

/** Ends what waits to be sent. It can be replayed. What failed before keeps the reason of its last attempt. */
export async function failWaiting(tx: Tx, webhookId: string): Promise<void> {
  await tx('webhook_deliveries')
    .where({ webhook_id: webhookId, status: 'pending' })
    .update({
      status: 'failed',
      error: tx.raw('coalesce(error, ?)', ['The webhook was disabled before this was delivered.']),
      next_attempt_at: null,
      ended_at: tx.fn.now(),
    });
}
