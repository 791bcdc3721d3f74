import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AgentRelease } from '../../../src/features/releases/registry/release.model.ts';
import type { BoardRows } from '../../../src/features/releases/upgrades/board/board-reader.ts';
import { UpgradeBoard } from '../../../src/features/releases/upgrades/board/upgrade-board.ts';
import { createHub } from '../../../src/hub/index.ts';
import type { AgentCredentials } from '../../../src/hub/ports/agent-credentials.ts';
import { createLogger } from '../../../src/platform/logger.ts';
import { createMetrics } from '../../../src/platform/metrics.ts';
import { answerMeasurements } from './measured.ts';
import { NO_LEDGER, NO_PEOPLE, NO_STORE } from './stub-ports.ts';

/**
 * The hub without a database, with a board of 1,000 organizations that have pins and windows, or without offers. Devices
 * run the newest release, as most devices do at most times.
 */

const ORGANIZATIONS = 1000;
const organizationOf = (index: number) => `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;
const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;

/** The token of a device is its id; its last digits say which organization it belongs to. */
const credentials: AgentCredentials = {
  verify: async (token) => ({
    ok: true,
    identity: {
      deviceId: token,
      orgId: organizationOf(Number.parseInt(token.slice(-6), 16) % ORGANIZATIONS),
      siteId: 'site',
      partnerId: 'partner',
      machine: { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: true },
    },
  }),
  forget() {},
  lapsed: async () => [],
};

const release = (version: string, promoted: boolean) =>
  AgentRelease.fromJson(
    {
      id: version,
      version,
      promoted,
      component: 'agent',
      os: 'linux',
      architecture: 'x64',
      sha256: '0'.repeat(64),
      size: 1,
      signature: 's',
      keyId: 'k',
    },
    { skipValidation: true },
  );

const ROWS: BoardRows = {
  partners: [{ id: 'partner', settings: {} }],
  organizations: Array.from({ length: ORGANIZATIONS }, (_, index) => ({
    id: organizationOf(index),
    partnerId: 'partner',
    settings: {
      pins: { agent: index % 3 === 0 ? '1.0.0' : 'latest' },
      maintenanceWindow: { days: [DAYS[index % 7] ?? 'mon'], start: '22:00', end: '04:00' },
    },
  })),
  releases: { rows: [release('1.0.0', false), release('1.1.0', true)], isTrusted: () => true },
  rollouts: [],
  attempts: [],
  switches: [],
};

const log = createLogger('error');
const offers = new UpgradeBoard({
  read: async () => ROWS,
  baseUrl: () => 'http://127.0.0.1',
  isInTouch: () => true,
  log,
});
await offers.start();
const httpServer = createServer();
const hub = createHub({
  httpServer,
  nodeId: 'bench',
  store: NO_STORE,
  credentials,
  ledger: NO_LEDGER,
  people: NO_PEOPLE,
  ...(process.env['BENCH_OFFERS'] === '1'
    ? { upgrades: { offers, history: { record: async () => [] } } }
    : {}),
  heartbeatSeconds: 600,
  proxyTrust: { proxies: undefined, cfConnectingIp: false },
  log,
  metrics: createMetrics(),
  admission: { perSecond: 100_000, burst: 100_000 },
});
await hub.start();
answerMeasurements();
httpServer.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${(httpServer.address() as AddressInfo).port}`);
});
process.once('disconnect', () => process.exit(0));
