import { SimpleGrid, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { LinkProps } from '@tanstack/react-router';
import { type Answer, apiQuery } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { formatCount, Loaded, Panel, TextLink } from '../../ui/index.ts';
import styles from './fleet-trends.module.css';
import { barsOf, CHART_HEIGHT, CHART_WIDTH, daysOf } from './trend-chart.ts';

type Day = Answer<'GET /fleet/trends'>['data'][number];
type Figure = Exclude<keyof Day, 'day'>;

const DAYS = 30;
/** The server counts each hour. */
const REFRESH_MS = 10 * 60_000;

interface Trend {
  figure: Figure;
  label: string;
  /** What the large number is: the newest one, or the sum of all days. */
  shows: 'newest' | 'sum';
  to: NonNullable<LinkProps['to']>;
  isBad?: true;
}

const TRENDS: readonly Trend[] = [
  { figure: 'devices', label: 'Devices in service', shows: 'newest', to: '/devices' },
  { figure: 'devicesConnected', label: 'Most connected at once', shows: 'newest', to: '/devices' },
  { figure: 'alertsRaised', label: 'Alerts raised', shows: 'sum', to: '/alerts', isBad: true },
  { figure: 'backupsFailed', label: 'Backups failed', shows: 'sum', to: '/backup/jobs', isBad: true },
];

/** How the fleet has changed from day to day. */
export function FleetTrends() {
  const { orgId } = scopeQuery(useScope());
  const trends = useQuery({
    ...apiQuery('GET /fleet/trends', { query: { days: String(DAYS), orgId } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Panel title={`The last ${DAYS} days`}>
      <Loaded query={trends} what="Reading the trends of the fleet">
        {({ data }) => {
          const last = data.at(-1)?.day;
          return last === undefined ? (
            <Text size="sm">Nothing has been counted yet. Muster counts each hour.</Text>
          ) : (
            <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
              {TRENDS.filter(({ figure }) => data.some((day) => day[figure] !== null)).map((trend) => (
                <Tile key={trend.figure} trend={trend} days={daysOf(data, { ...trend, last, days: DAYS })} />
              ))}
            </SimpleGrid>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function Tile({ trend, days }: { trend: Trend; days: ReturnType<typeof daysOf> }) {
  const counted = days.flatMap(({ day, value }) => (value === null ? [] : [{ day, value }]));
  const [first, newest] = [counted[0], counted.at(-1)];
  if (first === undefined || newest === undefined) return null;
  const sum = counted.reduce((total, { value }) => total + value, 0);
  const words =
    trend.shows === 'newest'
      ? `${formatCount(first.value)} on ${dayText(first.day)}, ${formatCount(newest.value)} on ${dayText(newest.day)}`
      : `${formatCount(sum)} since ${dayText(first.day)}, ${formatCount(newest.value)} of them on ${dayText(newest.day)}`;
  return (
    <Stack gap={4}>
      <TextLink size="sm" to={trend.to}>
        {trend.label}
      </TextLink>
      <Text fz={22} fw={600} lh={1.1}>
        {formatCount(trend.shows === 'newest' ? newest.value : sum)}
      </Text>
      <svg
        className={trend.isBad ? styles['bad'] : styles['chart']}
        viewBox={`0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${trend.label}: ${words}`}
      >
        {barsOf(days).map(({ day, value, ...bar }) => (
          <rect key={day} {...bar}>
            <title>{`${dayText(day)}: ${formatCount(value)}`}</title>
          </rect>
        ))}
      </svg>
      <Text size="xs" c="dimmed">
        {words}
      </Text>
    </Stack>
  );
}

/** Days are days of UTC, whatever the zone of the reader. */
const dayText = (day: string): string =>
  new Date(day).toLocaleDateString(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });
