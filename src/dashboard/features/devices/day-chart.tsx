import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call, type Answer } from '../../api/index.ts';
import { formatPercent } from '../../ui/index.ts';
import { DAY_HEIGHT, DAY_WIDTH, lineOf } from './day-line.ts';
import styles from './device-columns.module.css';

/** A small chart of a figure of a device over the last 24 hours, for lists. */

type DayMetric = 'cpuPercent' | 'ramPercent' | 'diskPercent';
type Day = Answer<'GET /metrics/hours'>['data'][number];

/** Averages are computed anew each hour. */
const STALE_MS = 10 * 60_000;
/** A row that is scrolled past is not read. */
const SEEN_MS = 200;
/** The rows of a screen are read together. */
const COLLECT_MS = 20;
const DEVICES_AT_ONCE = 100;

export function DayChart({ deviceId, metric }: { deviceId: string; metric: DayMetric }) {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSeen(true), SEEN_MS);
    return () => clearTimeout(timer);
  }, []);
  const { data } = useQuery({
    queryKey: ['metric hours', metric, deviceId],
    queryFn: () => dayOf(metric, deviceId),
    enabled: isSeen,
    staleTime: STALE_MS,
    retry: false,
  });
  const known = data?.averages.filter((value) => value !== null) ?? [];
  if (data === undefined || data === null || known.length === 0) {
    return <span className={styles['old']}>–</span>;
  }
  const words = `From ${formatPercent(Math.min(...known))} to ${formatPercent(Math.max(...known))} in the last 24 hours`;
  return (
    <svg
      className={styles['day']}
      width={DAY_WIDTH}
      height={DAY_HEIGHT}
      viewBox={`0 0 ${DAY_WIDTH} ${DAY_HEIGHT}`}
      role="img"
      aria-label={words}
    >
      <title>{words}</title>
      <path d={lineOf(data.averages)} />
    </svg>
  );
}

interface Waiting {
  deviceId: string;
  resolve: (day: Day | null) => void;
  reject: (error: unknown) => void;
}

const waiting = new Map<DayMetric, Waiting[]>();

/** The last day of a device, read with those of other devices; null if it has no figures. */
function dayOf(metric: DayMetric, deviceId: string): Promise<Day | null> {
  return new Promise((resolve, reject) => {
    const others = waiting.get(metric);
    const one = { deviceId, resolve, reject };
    if (others !== undefined) {
      others.push(one);
      return;
    }
    waiting.set(metric, [one]);
    setTimeout(() => {
      const all = waiting.get(metric) ?? [];
      waiting.delete(metric);
      for (let at = 0; at < all.length; at += DEVICES_AT_ONCE) {
        void readDays(metric, all.slice(at, at + DEVICES_AT_ONCE));
      }
    }, COLLECT_MS);
  });
}

async function readDays(metric: DayMetric, devices: readonly Waiting[]): Promise<void> {
  try {
    const deviceIds = devices.map(({ deviceId }) => deviceId).join(',');
    const { data } = await call('GET /metrics/hours', { query: { deviceIds, metric } });
    const days = new Map(data.map((day) => [day.deviceId, day]));
    for (const { deviceId, resolve } of devices) resolve(days.get(deviceId) ?? null);
  } catch (error) {
    for (const { reject } of devices) reject(error);
  }
}
