import type { Alert, Notification } from '../../api/routes.ts';

/** What has happened with an alert, in its order. Pure. */

export type AlertStep =
  | { kind: 'raised' | 'last'; at: string }
  | { kind: 'acknowledged' | 'resolved'; at: string; by: string | null; text: string | null }
  | { kind: 'told'; at: string; notification: Notification };

/** Of what happened at the same time, the cause comes first. */
const RANKS: Record<AlertStep['kind'], number> = {
  raised: 0,
  last: 1,
  acknowledged: 2,
  resolved: 3,
  told: 4,
};

export function alertTimeline(alert: Alert, notifications: readonly Notification[]): AlertStep[] {
  const { raisedAt, lastAt, count, acknowledgedAt, acknowledgedBy, resolvedAt, resolvedBy } = alert;
  const steps: AlertStep[] = [
    { kind: 'raised', at: raisedAt },
    ...notifications.map(
      (notification) =>
        ({ kind: 'told', at: notification.sentAt ?? notification.createdAt, notification }) as const,
    ),
  ];
  if (count > 1) steps.push({ kind: 'last', at: lastAt });
  if (acknowledgedAt !== null) {
    const text = resolvedAt === null ? alert.note : null;
    steps.push({ kind: 'acknowledged', at: acknowledgedAt, by: acknowledgedBy, text });
  }
  if (resolvedAt !== null) {
    steps.push({ kind: 'resolved', at: resolvedAt, by: resolvedBy, text: alert.resolution ?? alert.note });
  }
  return steps.sort((a, b) => Date.parse(a.at) - Date.parse(b.at) || RANKS[a.kind] - RANKS[b.kind]);
}

export const NOTIFICATION_REASONS: Readonly<Record<Notification['reason'], string>> = {
  raised: 'Raised',
  escalated: 'Escalated',
  repeated: 'Told again',
  acknowledged: 'Acknowledged',
  resolved: 'Resolved',
  test: 'Test',
};

/** "Slack of operations was told", "Anna was not told". */
export function toldText({
  recipient,
  status,
  reason,
}: Pick<Notification, 'recipient' | 'status' | 'reason'>): string {
  const what = reason === 'acknowledged' || reason === 'resolved' ? ` that it is ${reason}` : '';
  switch (status) {
    case 'pending':
      return `${recipient} is being told${what}`;
    case 'sent':
      return `${recipient} was told${what}`;
    case 'failed':
      return `${recipient} could not be told${what}`;
    case 'suppressed':
      return `${recipient} was not told${what}`;
    default:
      return status satisfies never;
  }
}
