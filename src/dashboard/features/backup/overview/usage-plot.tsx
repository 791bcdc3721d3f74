import { Group, SegmentedControl, Stack, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery, type BackupUsageHistory } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { formatBytes, Loaded } from '../../../ui/index.ts';

const WIDTH = 600;
const HEIGHT = 140;
const RANGES = ['7', '30', '90'];

/** What backups take, day by day. The plot is for the eye; the line of text below it says the same. */
export function UsagePlot({ days, onDays }: { days: number; onDays: (days: number) => void }) {
  const { orgId } = scopeQuery(useScope());
  const usage = useQuery({
    ...apiQuery('GET /backup/usage-history', { query: { orgId, days: String(days) } }),
    placeholderData: keepPreviousData,
  });
  return (
    <Stack gap="xs">
      <Group justify="flex-end">
        <SegmentedControl
          size="xs"
          aria-label="Days that are shown"
          data={RANGES.map((value) => ({ value, label: `${value} days` }))}
          value={String(days)}
          onChange={(value) => onDays(Number(value))}
        />
      </Group>
      <Loaded query={usage} what="Reading the usage">
        {({ data: { points } }) => <Plot points={points} />}
      </Loaded>
    </Stack>
  );
}

function Plot({ points }: { points: BackupUsageHistory['data']['points'] }) {
  const first = points[0];
  const last = points.at(-1);
  if (first === undefined || last === undefined || points.every(({ totalBytes }) => totalBytes === 0)) {
    return <Text size="sm">Nothing was stored in these days.</Text>;
  }
  const most = Math.max(...points.map(({ totalBytes }) => totalBytes));
  const x = (place: number) => (points.length === 1 ? WIDTH : (place / (points.length - 1)) * WIDTH);
  const y = (bytes: number) => HEIGHT - (bytes / most) * (HEIGHT - 4);
  const line = points.map(({ totalBytes }, place) => `${x(place).toFixed(1)},${y(totalBytes).toFixed(1)}`);
  const day = (at: string) => new Date(at).toLocaleDateString();
  const providers = last.providers
    .map(({ provider, bytes }) => `${provider} ${formatBytes(bytes)}`)
    .join(', ');
  const growth = last.totalBytes - first.totalBytes;
  return (
    <Stack gap={4}>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} height={HEIGHT} preserveAspectRatio="none" aria-hidden>
        <polygon
          points={`0,${HEIGHT} ${line.join(' ')} ${WIDTH},${HEIGHT}`}
          fill="var(--mantine-primary-color-light)"
        />
        <polyline
          points={line.join(' ')}
          fill="none"
          stroke="var(--mantine-primary-color-filled)"
          strokeWidth={2}
          vectorEffect="non-scaling-stroke"
        />
      </svg>
      <Group justify="space-between">
        <Text size="xs">{day(first.timestamp)}</Text>
        <Text size="xs">{day(last.timestamp)}</Text>
      </Group>
      <Text size="sm">
        {formatBytes(first.totalBytes)} on {day(first.timestamp)}, {formatBytes(last.totalBytes)} now (
        {growth < 0 ? '−' : '+'}
        {formatBytes(Math.abs(growth))}), at most {formatBytes(most)}.{' '}
        {providers !== '' && `Now by place: ${providers}.`}
      </Text>
    </Stack>
  );
}
