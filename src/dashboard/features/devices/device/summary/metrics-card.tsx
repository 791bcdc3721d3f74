import { Group, Progress, Stack, Text } from '@mantine/core';
import type { Device } from '../../../../api/index.ts';
import { formatDuration, formatPercent, When } from '../../../../ui/index.ts';
import { Card } from './facts.tsx';
import styles from './facts.module.css';
import { useMetricHistory } from './metric-history.ts';
import type { Sample } from './samples.ts';

const HIGH_PERCENT = 90;

/** How busy the machine is: the newest figures, and their course since the dashboard was opened. */
export function MetricsCard({ device }: { device: Device }) {
  const samples = useMetricHistory(device);
  const { metrics, presence } = device;
  if (metrics === null) {
    return (
      <Card title="Load">
        <Text size="sm">The agent has reported no figures yet. It sends them with its heartbeat.</Text>
      </Card>
    );
  }
  const isOld = presence.state === 'disconnected';
  const length = (samples.at(-1)?.at ?? 0) - (samples[0]?.at ?? 0);
  return (
    <Card
      title={isOld ? 'Last known load' : 'Load'}
      action={
        <Text size="xs">
          {isOld ? 'From ' : 'Measured '}
          <When at={metrics.at} />
        </Text>
      }
    >
      <Stack gap="xs" {...(isOld ? { className: styles['old'] } : {})}>
        <Meter name="Processor" percent={metrics.cpuPercent} samples={samples} of="cpu" isOld={isOld} />
        <Meter name="Memory" percent={metrics.ramPercent} samples={samples} of="ram" isOld={isOld} />
        <Meter name="System disk" percent={metrics.diskPercent} samples={samples} of="disk" isOld={isOld} />
      </Stack>
      <Text size="xs" mt={6}>
        {samples.length < 2
          ? 'The curves grow while the dashboard is open: the server keeps the newest figures only.'
          : `The curves show the last ${formatDuration(length)}, from 0 to 100 %.`}
      </Text>
    </Card>
  );
}

function Meter({
  name,
  percent,
  samples,
  of,
  isOld,
}: {
  name: string;
  percent: number;
  samples: readonly Sample[];
  of: 'cpu' | 'ram' | 'disk';
  isOld: boolean;
}) {
  const isHigh = percent >= HIGH_PERCENT;
  return (
    <Stack gap={4}>
      <Group justify="space-between" gap={4} wrap="nowrap">
        <Text size="sm">{name}</Text>
        <Text size="sm" fw={700} c={isHigh ? 'red' : 'inherit'}>
          {formatPercent(percent)}
          {isHigh && ', high'}
        </Text>
      </Group>
      <Progress
        value={percent}
        size="sm"
        color={isOld ? 'gray' : isHigh ? 'red' : 'blue'}
        aria-label={`${name}: ${formatPercent(percent)}`}
      />
      {samples.length >= 2 && <Curve name={name} values={samples.map((sample) => [sample.at, sample[of]])} />}
    </Stack>
  );
}

function Curve({
  name,
  values,
}: {
  name: string;
  values: readonly (readonly [at: number, percent: number])[];
}) {
  const begin = values[0]?.[0] ?? 0;
  const length = Math.max(1, (values.at(-1)?.[0] ?? 0) - begin);
  const points = values.map(([at, percent]) => `${((at - begin) / length) * 100},${100 - percent}`).join(' ');
  const percents = values.map(([, percent]) => percent);
  const label = `${name} in the last ${formatDuration(length)}: from ${formatPercent(Math.min(...percents))} to ${formatPercent(Math.max(...percents))}`;
  return (
    <svg
      className={styles['curve']}
      viewBox="0 0 100 100"
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <line className={styles['base']} x1="0" y1="100" x2="100" y2="100" />
      <polyline className={styles['line']} points={points} />
    </svg>
  );
}
