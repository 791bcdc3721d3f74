import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createHub, type Hub, joinCluster } from '../../../src/hub/index.ts';
import { openRedis } from '../../../src/platform/cluster/redis.ts';
import { createLogger } from '../../../src/platform/logger.ts';
import { createMetrics } from '../../../src/platform/metrics.ts';
import { answersFor } from './asking.ts';
import { answerMeasurements } from './measured.ts';
import { NO_LEDGER, ANY_PERSON, NO_STORE, TOKEN_IS_DEVICE } from './stub-ports.ts';

/**
 * One node of a cluster: the real hub on real sockets and a real Redis, without a database, because the figures
 * measure the communication between nodes.
 */

const { BENCH_REDIS_URL = '', BENCH_NODE_ID = '' } = process.env;
const log = createLogger('error');
const metrics = createMetrics();
const httpServer = createServer();
const redis = await openRedis(BENCH_REDIS_URL, log);
let hub: Hub | undefined;
const cluster = await joinCluster({
  redis,
  nodeId: BENCH_NODE_ID,
  onSuperseded: (deviceId, epoch) => hub?.superseded(deviceId, epoch),
  onTied: (deviceId) => hub?.claimTied(deviceId),
  onReturn: () => hub?.republish(),
  log,
  metrics,
});
const node = (hub = createHub({
  httpServer,
  nodeId: BENCH_NODE_ID,
  bus: cluster.bus,
  directory: cluster.directory,
  nodes: cluster.nodes,
  store: NO_STORE,
  credentials: TOKEN_IS_DEVICE,
  ledger: NO_LEDGER,
  people: ANY_PERSON,
  heartbeatSeconds: 600,
  proxyTrust: { proxies: undefined, cfConnectingIp: false },
  log,
  metrics,
  admission: { perSecond: 100_000, burst: 100_000 },
}));
await node.start();

answerMeasurements(
  answersFor(async (deviceId) => {
    const outcome = await node.query(deviceId, { type: 'eventlogs.list', payload: {} });
    return outcome.ok ? 'answered' : outcome.reason;
  }),
);
httpServer.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${(httpServer.address() as AddressInfo).port}`);
});
process.once('disconnect', () => process.exit(0));
