import { AlertRounds } from '../../../src/features/alert-rules/alert-rule.work.ts';
import { FigureWatch, RuleBook } from '../../../src/features/alert-rules/index.ts';
import { createAuditTrail } from '../../../src/features/audit/index.ts';
import { createDeviceStore } from '../../../src/features/devices/index.ts';
import { createMetricStore } from '../../../src/features/metrics/index.ts';
import { createMetrics } from '../../../src/platform/metrics.ts';
import { quietLog } from '../quiet-log.ts';
import type { TestApp } from '../test-app.ts';

/**
 * What a server does for the alerts of its devices, put together as `src/server/live-side.ts` does, without its timers: a
 * replay calls what they would call. A restart is another one of these: it remembers nothing.
 */
export async function replayedServer(app: TestApp, nodeId: string) {
  const db = app.server.database.hubPool;
  const parts = { db, log: quietLog };
  const book = new RuleBook(parts);
  await book.settle();
  const watch = new FigureWatch({ ...parts, book });
  const metrics = createMetricStore({
    ...parts,
    metrics: createMetrics(),
    onStored: (figures) => watch.sampled(figures),
  });
  const devices = createDeviceStore({
    ...parts,
    nodeId,
    audit: createAuditTrail({ wake() {} }),
    onHeard: (records) => watch.heard(records),
    onPresence: (deviceIds) => metrics.presenceTurned(deviceIds),
  });
  const rounds = new AlertRounds(parts);
  return {
    book,
    watch,
    metrics,
    devices,
    rounds,
    async close() {
      await book.close();
      await rounds.close();
    },
  };
}

export type ReplayedServer = Awaited<ReturnType<typeof replayedServer>>;
