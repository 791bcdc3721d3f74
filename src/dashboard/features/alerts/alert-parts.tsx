import { Anchor } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { Alert } from '../../api/index.ts';
import { formatWord, StateBadge, type Tone } from '../../ui/index.ts';

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

/** The title of an alert, which leads to its device where it concerns one. */
export function AlertSubject({ alert }: { alert: Alert }) {
  const { deviceId, title } = alert;
  if (deviceId === null) return title;
  return (
    <Anchor inherit renderRoot={(props) => <Link {...props} to="/devices/$deviceId" params={{ deviceId }} />}>
      {title}
    </Anchor>
  );
}
