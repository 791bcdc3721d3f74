import type { Webhook, WebhookDelivery } from '../../../api/index.ts';
import { StateBadge, type Tone } from '../../../ui/index.ts';

const WEBHOOK: Record<Webhook['status'], { tone: Tone; label: string }> = {
  active: { tone: 'good', label: 'Active' },
  failing: { tone: 'warning', label: 'Failing' },
  paused: { tone: 'warning', label: 'Paused' },
  disabled: { tone: 'neutral', label: 'Disabled' },
  disabled_by_server: { tone: 'bad', label: 'Disabled by the server' },
};

export function WebhookStatus({ status }: { status: Webhook['status'] }) {
  return <StateBadge {...WEBHOOK[status]} />;
}

const DELIVERY: Record<WebhookDelivery['status'], { tone: Tone; label: string }> = {
  pending: { tone: 'busy', label: 'Waiting' },
  delivered: { tone: 'good', label: 'Delivered' },
  failed: { tone: 'bad', label: 'Failed' },
};

export function DeliveryStatus({ status }: { status: WebhookDelivery['status'] }) {
  return <StateBadge {...DELIVERY[status]} />;
}

const REASONS = {
  gone: 'The receiver answered 410 Gone. What waited for it has failed, and can be replayed.',
  failing: 'No delivery succeeded for 3 days. What waited for it has failed, and can be replayed.',
} as const;

/** Why the server sends nothing, where it has decided that. */
export const disabledText = ({ disabledReason }: Webhook): string | undefined =>
  disabledReason === null ? undefined : REASONS[disabledReason];
