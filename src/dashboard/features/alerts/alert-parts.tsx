import type { Alert } from '../../api/index.ts';
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

/** The title of an alert, which leads to its device if it concerns one. */
export function AlertSubject({ alert }: { alert: Alert }) {
  const { deviceId, title } = alert;
  if (deviceId === null) return title;
  return (
    <TextLink inherit to="/devices/$deviceId" params={{ deviceId }}>
      {title}
    </TextLink>
  );
}
