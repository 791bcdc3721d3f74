import { Tooltip } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, type Alert, type Notification } from '../../api/index.ts';
import { formatWord, StateBadge, type Tone, TextLink } from '../../ui/index.ts';

const TONES: Record<Alert['severity'], Tone> = {
  critical: 'bad',
  high: 'bad',
  medium: 'warning',
  low: 'info',
  info: 'neutral',
};

export function SeverityBadge({ severity }: { severity: Alert['severity'] }) {
  return <StateBadge tone={TONES[severity]} label={formatWord(severity)} />;
}

const STATUSES = { active: 'warning', acknowledged: 'info', resolved: 'good' } as const;

export function AlertStatus({ alert }: { alert: Alert }) {
  const badge = <StateBadge tone={STATUSES[alert.status]} label={formatWord(alert.status)} />;
  const why = alert.resolution ?? alert.note;
  return why === null ? badge : <Tooltip label={why}>{badge}</Tooltip>;
}

/** The name of the device of an alert, which leads to it. */
export function DeviceLink({ id }: { id: string }) {
  const device = useQuery(apiQuery('GET /devices/{id}', { params: { id } }));
  return (
    <TextLink inherit underline="always" to="/devices/$deviceId" params={{ deviceId: id }}>
      {device.data?.displayName ?? device.data?.hostname ?? 'The device'}
    </TextLink>
  );
}

export const NOTIFICATION_STATES: Record<Notification['status'], { tone: Tone; label: string }> = {
  pending: { tone: 'busy', label: 'Being sent' },
  sent: { tone: 'good', label: 'Sent' },
  failed: { tone: 'bad', label: 'Failed' },
  suppressed: { tone: 'neutral', label: 'Not told' },
};

/** What came of a message about alerts. */
export function NotificationState({ status }: Pick<Notification, 'status'>) {
  return <StateBadge {...NOTIFICATION_STATES[status]} />;
}
