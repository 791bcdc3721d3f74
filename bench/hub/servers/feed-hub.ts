import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createHub } from '../../../src/hub/index.ts';
import type { DeviceStore } from '../../../src/hub/ports.ts';
import { createLogger } from '../../../src/platform/logger.ts';
import { createMetrics } from '../../../src/platform/metrics.ts';
import { changeSteadily, devicesOfOneOrganization } from './changes.ts';
import { answerMeasurements } from './measured.ts';
import { NO_LEDGER, ANY_PERSON, NO_STORE, TOKEN_IS_DEVICE } from './stub-ports.ts';

/** Heap and external memory after a collection, in KiB. The process must run with --expose-gc. */
function watchMemory(): { heldKiB: number; rssKiB: number } {
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heldKiB: (heapUsed + external) / 1024, rssKiB: rss / 1024 };
}

/** The real hub with the real dashboard feed, over devices in memory that every client may see. */

const devices = devicesOfOneOrganization(Number(process.env['BENCH_DEVICES']));
const page: DeviceStore['summaries'] = async (_caller, _filter, { after, atMost }) => {
  const start = after === undefined ? 0 : devices.findIndex(({ id }) => id === after.id) + 1;
  return devices.slice(start, start + atMost).map((device) => ({ device, epoch: 0 }));
};

const log = createLogger('error');
const metrics = createMetrics();
const httpServer = createServer();
const hub = createHub({
  httpServer,
  nodeId: 'node',
  store: { ...NO_STORE, summaries: page },
  credentials: TOKEN_IS_DEVICE,
  ledger: NO_LEDGER,
  people: ANY_PERSON,
  // All dashboards belong to one person and come from one address.
  dashboardLimits: {
    connectionsPerPerson: Number.POSITIVE_INFINITY,
    connectionsPerAddress: Number.POSITIVE_INFINITY,
    subscriptionsPerPerson: Number.POSITIVE_INFINITY,
  },
  heartbeatSeconds: 60,
  proxyTrust: { proxies: undefined, cfConnectingIp: false },
  log,
  metrics,
});
await hub.start();
answerMeasurements({
  change: (order) =>
    changeSteadily(devices, order as { perSecond: number; seconds: number }, (deviceId, patch) =>
      hub.deviceChanged(deviceId, patch),
    ),
  memory: async () => watchMemory(),
  async subscriptions() {
    const { values } =
      (await metrics.registry.getSingleMetric('muster_dashboard_subscriptions')?.get()) ?? {};
    return values?.[0]?.value;
  },
});
httpServer.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${(httpServer.address() as AddressInfo).port}`);
});
process.once('disconnect', () => process.exit(0));
