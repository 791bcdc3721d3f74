import { Button, Group, SegmentedControl, Select, Stack, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useCallback, useMemo, useState } from 'react';
import { type Alert, apiQuery, type Device, type DeviceMetrics } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { Empty, formatTime, Loaded, reasonText, saveFile, toCsv, useNow } from '../../ui/index.ts';
import { SeverityBadge } from '../alerts/index.ts';
import { TimeChart } from './time-chart.tsx';
import { type Chart, chartsOf, compared, figuresOf, rowsOf } from './metric-charts.ts';
import { FIGURE_FORMATS } from './figure-formats.ts';
import { Card, Facts, useDeviceAddress } from './tab-parts.tsx';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const RANGES: Record<string, { label: string; ms: number }> = {
  hour: { label: '1 hour', ms: HOUR_MS },
  day: { label: '24 hours', ms: DAY_MS },
  week: { label: '7 days', ms: 7 * DAY_MS },
  month: { label: '30 days', ms: 30 * DAY_MS },
  quarter: { label: '90 days', ms: 90 * DAY_MS },
  year: { label: '1 year', ms: 365 * DAY_MS },
};
const CHOICES = Object.entries(RANGES).map(([value, { label }]) => ({ value, label }));
const DEFAULT_RANGE = 'day';

/** What the figures are compared with: the same time so much earlier. */
const COMPARISONS: Record<string, { label: string; ms: (rangeMs: number) => number; upTo: number }> = {
  day: { label: 'The day before', ms: () => DAY_MS, upTo: DAY_MS },
  week: { label: 'The week before', ms: () => 7 * DAY_MS, upTo: 7 * DAY_MS },
  before: { label: 'The time before', ms: (rangeMs) => rangeMs, upTo: Number.POSITIVE_INFINITY },
};
/** The newest. */
const ALERTS_SHOWN = '20';
const NO_ALERTS: readonly Alert[] = [];

interface Stretch {
  from: number;
  to: number;
}

/** The figures of the device over time, and why there are none where there are none. */
export function MetricsTab({ device }: { device: Device }) {
  const address = useDeviceAddress();
  const { range = DEFAULT_RANGE } = address.search;
  const shown = Object.hasOwn(RANGES, range) ? range : DEFAULT_RANGE;
  const [zoom, setZoom] = useState<Stretch>();
  // A new minute has a new sample.
  const minute = Math.floor(useNow() / MINUTE_MS) * MINUTE_MS;
  const { from, to } = zoom ?? { from: minute - (RANGES[shown]?.ms ?? DAY_MS), to: minute + MINUTE_MS };
  const query = useQuery({
    ...apiQuery('GET /devices/{id}/metrics', {
      params: { id: device.id },
      query: { from: new Date(from).toISOString(), to: new Date(to).toISOString() },
    }),
    placeholderData: keepPreviousData,
  });
  const alerts = useQuery({
    ...apiQuery('GET /alerts', {
      query: {
        deviceId: device.id,
        from: new Date(from).toISOString(),
        to: new Date(to).toISOString(),
        limit: ALERTS_SHOWN,
      },
    }),
    enabled: useRefusal('alerts:read') === undefined,
    placeholderData: keepPreviousData,
  });
  const rangeMs = RANGES[shown]?.ms ?? DAY_MS;
  const comparisons = Object.entries(COMPARISONS).filter(([, { upTo }]) => rangeMs <= upTo);
  const comparison = comparisons.find(([name]) => name === address.search.compare);
  const earlierMs = comparison?.[1].ms(rangeMs) ?? 0;
  const before = useQuery({
    ...apiQuery('GET /devices/{id}/metrics', {
      params: { id: device.id },
      query: {
        from: new Date(from - earlierMs).toISOString(),
        to: new Date(to - earlierMs).toISOString(),
      },
    }),
    enabled: comparison !== undefined,
    placeholderData: keepPreviousData,
  });
  const zoomTo = useCallback(
    (begin: number, end: number) => setZoom({ from: begin * 1000, to: end * 1000 }),
    [],
  );
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <SegmentedControl
          aria-label="Range"
          data={CHOICES}
          value={shown}
          onChange={(next) => {
            setZoom(undefined);
            address.put({ range: next === DEFAULT_RANGE ? undefined : next });
          }}
        />
        <Select
          w={190}
          aria-label="Compare with"
          placeholder="Compare with"
          clearable
          data={comparisons.map(([value, { label }]) => ({ value, label }))}
          value={comparison?.[0] ?? null}
          onChange={(next) => address.put({ compare: next ?? undefined })}
        />
        {zoom === undefined ? (
          <Text size="sm" c="dimmed">
            Drag over a chart to see a part of it in more detail.
          </Text>
        ) : (
          <Button variant="default" size="xs" onClick={() => setZoom(undefined)}>
            Back to the whole range
          </Button>
        )}
      </Group>
      <Loaded query={query} what="Reading the metric history">
        {(history) => (
          <History
            name={device.displayName ?? device.hostname}
            history={history}
            earlier={comparison === undefined ? undefined : before.data}
            earlierBy={earlierMs / 1000}
            alerts={alerts.data?.data ?? NO_ALERTS}
            from={from / 1000}
            to={to / 1000}
            onSelect={zoomTo}
          />
        )}
      </Loaded>
    </Stack>
  );
}

function History({
  name,
  history,
  earlier,
  earlierBy,
  alerts,
  from,
  to,
  onSelect,
}: {
  name: string;
  history: DeviceMetrics;
  /** What it is compared with, and how many seconds before that was. */
  earlier: DeviceMetrics | undefined;
  earlierBy: number;
  alerts: readonly Alert[];
  from: number;
  to: number;
  onSelect: (from: number, to: number) => void;
}) {
  const charts = useMemo(() => {
    const now = chartsOf(history);
    return earlier === undefined ? now : compared(now, earlier, earlierBy);
  }, [history, earlier, earlierBy]);
  const gaps = useMemo(
    () => history.gaps.map((gap) => ({ from: Date.parse(gap.from) / 1000, to: Date.parse(gap.to) / 1000 })),
    [history],
  );
  const marks = useMemo(() => alerts.map(({ raisedAt }) => Date.parse(raisedAt) / 1000), [alerts]);
  if (charts.length === 0) {
    return (
      <Empty title="Nothing was measured in this time">
        Agents measure once a minute, and send what they have kept when they connect again.
      </Empty>
    );
  }
  return (
    <>
      {charts.map((chart) => (
        <Card key={chart.title} title={chart.title}>
          <TimeChart
            label={`${chart.title} over time`}
            from={from}
            to={to}
            times={chart.times}
            lines={chart.lines}
            format={FIGURE_FORMATS[chart.unit]}
            max={chart.unit === 'percent' ? 100 : undefined}
            gaps={gaps}
            marks={marks}
            onSelect={onSelect}
          />
          <Facts facts={chart.lines.map((line) => [line.label, inFigures(line, chart)])} />
        </Card>
      ))}
      <Alerts alerts={alerts} />
      <Gaps gaps={history.gaps} />
      <Group>
        <Button
          variant="default"
          size="xs"
          onClick={() => saveFile(`${name} metrics.csv`, toCsv(rowsOf(charts)))}
        >
          Save these figures as CSV
        </Button>
      </Group>
    </>
  );
}

function inFigures(line: Chart['lines'][number], { unit }: Chart): string | undefined {
  const figures = figuresOf(line);
  if (figures === undefined) return undefined;
  const format = FIGURE_FORMATS[unit];
  return `${format(figures.newest)} last, ${format(figures.average)} on average, ${format(figures.highest)} at most`;
}

function whyNot(reason: DeviceMetrics['gaps'][number]['reason']): string {
  if (reason === null) return 'It is not known why.';
  if (reason === 'connected') return 'The device was connected, and sent nothing.';
  return `The device ${reasonText({ reason })}.`;
}

/** The alerts that the charts mark by lines. */
function Alerts({ alerts }: { alerts: readonly Alert[] }) {
  if (alerts.length === 0) return null;
  return (
    <Card title="Alerts in this time">
      <Stack gap={6}>
        {alerts.map((alert) => (
          <Group key={alert.id} gap="xs" wrap="nowrap">
            <SeverityBadge severity={alert.severity} />
            <Text size="sm" truncate flex={1}>
              {alert.title}
            </Text>
            <Text size="xs" c="dimmed">
              {formatTime(new Date(alert.raisedAt))}
            </Text>
          </Group>
        ))}
      </Stack>
    </Card>
  );
}

const GAPS_SHOWN = 10;

function Gaps({ gaps }: Pick<DeviceMetrics, 'gaps'>) {
  if (gaps.length === 0) return null;
  const newest = gaps.toReversed().slice(0, GAPS_SHOWN);
  return (
    <Card title="Without figures">
      <Facts
        facts={newest.map(({ from, to, reason }) => [
          `${formatTime(new Date(from))} to ${formatTime(new Date(to))}`,
          whyNot(reason),
        ])}
      />
      {gaps.length > GAPS_SHOWN && (
        <Text size="sm" c="dimmed">
          {`The newest ${GAPS_SHOWN} of ${gaps.length}.`}
        </Text>
      )}
    </Card>
  );
}
