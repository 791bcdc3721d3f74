import { useEffect, useState } from 'react';
import type { Device } from '../../../../api/index.ts';
import { withSample, type Sample } from './samples.ts';

/** The API keeps the newest figures only, so what came while the dashboard is open is kept here. */
const DEVICES_MAX = 30;
const kept = new Map<string, readonly Sample[]>();

export function useMetricHistory({ id, metrics }: Device): readonly Sample[] {
  const [samples, setSamples] = useState<readonly Sample[]>(() => kept.get(id) ?? []);
  const at = metrics?.at;
  useEffect(() => {
    if (metrics === null || at === undefined) return;
    const sample = {
      at: Date.parse(at),
      cpu: metrics.cpuPercent,
      ram: metrics.ramPercent,
      disk: metrics.diskPercent,
    };
    setSamples((known) => {
      const next = withSample(known, sample);
      kept.delete(id);
      kept.set(id, next);
      const [oldest] = kept.keys();
      if (kept.size > DEVICES_MAX && oldest !== undefined) kept.delete(oldest);
      return next;
    });
    // New figures have a new time.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [id, at]);
  return samples;
}
