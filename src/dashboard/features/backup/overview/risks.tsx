import { Group, Stack, Text } from '@mantine/core';
import type { BackupRecoveryReadiness } from '../../../api/index.ts';
import { formatDuration, formatWord, StateBadge, type Tone } from '../../../ui/index.ts';

type Risk = BackupRecoveryReadiness['data']['devices'][number]['riskFactors'][number];
const TONES: Record<Risk['severity'], Tone> = {
  critical: 'bad',
  high: 'bad',
  medium: 'warning',
  low: 'info',
};
const MINUTE_MS = 60_000;

export const ageText = (minutes: number | null) =>
  minutes === null ? 'None' : `${formatDuration(minutes * MINUTE_MS)} old`;

/** What speaks against a restore. */
export function Risks({ risks }: { risks: readonly Risk[] }) {
  return (
    <Stack gap={2}>
      {risks.map(({ code, severity, message }) => (
        <Group key={code} gap={6} wrap="nowrap">
          <StateBadge tone={TONES[severity]} label={formatWord(severity)} />
          <Text size="sm">{message}</Text>
        </Group>
      ))}
    </Stack>
  );
}
