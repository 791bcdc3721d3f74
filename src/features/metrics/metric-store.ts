import { setImmediate as othersTurn } from 'node:timers/promises';
import { clock, HOUR_MS } from '../../clock.ts';
import type { MetricHistory } from '../../hub/ports.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystemStatement } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { packBlock } from './block.ts';
import type { Block } from './metric.ts';
import {
  ADD_SAMPLES,
  addComingPartitions,
  blockValues,
  notePresence,
  type StoredBlock,
} from './metric.queries.ts';
import { blocksOfSamples, type RefusedSamples } from './series.ts';

/** Packed without letting anything else run. */
const REPORTS_AT_ONCE = 50;

interface Stored {
  deviceId: string;
  orgId: string;
}

/** Samples of a device that were stored, as one stretch for each hour. */
interface StoredFigures {
  deviceId: string;
  orgId: string;
  stretches: readonly (Block & { beginsAt: number })[];
}

export interface MetricStore extends MetricHistory {
  /** Must be called with devices that have connected or disconnected. */
  presenceTurned(deviceIds: readonly string[]): void;
  /** Resolves when what is being written is written. */
  settle(): Promise<void>;
}

/** Stores the samples of devices as they come, and why devices were away. */
export function createMetricStore({
  db,
  log,
  metrics,
  onStored,
}: {
  db: Db;
  log: Logger;
  metrics: Metrics;
  /** Called with samples that were stored, before their devices are told so. Must not reject. */
  onStored?: (figures: readonly StoredFigures[]) => Promise<void>;
}): MetricStore {
  const refusals = metrics.counter(
    'muster_metric_samples_refused_total',
    'Samples of devices that were not stored: invalid, from the future, or too old.',
    ['reason'],
  );
  /** In monotonic time. */
  let partitionsAt = Number.NEGATIVE_INFINITY;
  /** By the hour, because the job that also does this may not run, and a row without a partition cannot be written. */
  const ensurePartitions = async () => {
    if (clock.monotonic() - partitionsAt < HOUR_MS) return;
    await addComingPartitions(db, 'metric_samples', 1);
    await addComingPartitions(db, 'presence_changes', 24);
    partitionsAt = clock.monotonic();
  };
  const countRefused = (refused: RefusedSamples) => {
    for (const [reason, count] of Object.entries(refused)) if (count > 0) refusals.inc({ reason }, count);
  };
  let noting: Promise<void> = Promise.resolve();

  return {
    async record(reports) {
      const now = clock.now();
      const blocks: StoredBlock[] = [];
      const figures: Omit<StoredFigures, 'orgId'>[] = [];
      const stored = new Set<string>();
      for (const [at, { deviceId, samples }] of reports.entries()) {
        // Packing takes long enough to hold up heartbeats.
        if (at % REPORTS_AT_ONCE === REPORTS_AT_ONCE - 1) await othersTurn();
        const { blocks: byHour, refused } = blocksOfSamples(samples, now);
        countRefused(refused);
        // Samples that are refused would be so however often they came.
        if (byHour.size === 0) stored.add(deviceId);
        else {
          figures.push({
            deviceId,
            stretches: [...byHour].map(([beginsAt, block]) => ({ beginsAt, ...block })),
          });
        }
        for (const [hour, block] of byHour) {
          blocks.push({ deviceId, beginsAt: new Date(hour), block: packBlock(block, { hasRange: false }) });
        }
      }
      if (blocks.length === 0) return stored;
      await ensurePartitions();
      const rows = await withSystemStatement<Stored>(
        db,
        'add samples of many devices',
        { ...ADD_SAMPLES, values: blockValues(blocks) },
        () => true,
      );
      const organizations = new Map<string, string>();
      for (const { deviceId, orgId } of rows ?? []) {
        stored.add(deviceId);
        organizations.set(deviceId, orgId);
      }
      await onStored?.(
        figures.flatMap((device) => {
          const orgId = organizations.get(device.deviceId);
          return orgId === undefined ? [] : [{ ...device, orgId }];
        }),
      );
      return stored;
    },
    presenceTurned(deviceIds) {
      // A reason that is not noted is shown as unknown, and nothing else waits for it.
      noting = noting
        .then(ensurePartitions)
        .then(() => notePresence(db, deviceIds))
        .catch((error: unknown) => log.warn({ err: error }, 'metrics.presence_not_noted'));
    },
    settle: () => noting,
  };
}
