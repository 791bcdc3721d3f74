import { longWorkFeed } from '../features/backup/index.ts';
import {
  createUpgradeHistory,
  readUpgradeOffers,
  UpgradeOfferCache,
  UPGRADES_CHANNEL,
} from '../features/agent-upgrades/index.ts';
import { CLOUD_WORK } from '../features/cloud-backup/index.ts';
import { createCommandLedger } from '../features/commands/index.ts';
import {
  CachedAgentCredentials,
  createDeviceStore,
  createFleetStore,
  followChangesOfConditions,
} from '../features/devices/index.ts';
import { createTerminalStore } from '../features/terminals/index.ts';
import { createServiceStore } from '../features/device-services/index.ts';
import { DynamicGroupSync } from '../features/groups/index.ts';
import { FigureWatch, RuleBook } from '../features/alert-rules/index.ts';
import { createMetricStore } from '../features/metrics/index.ts';
import type { WorkEngine } from '../features/work/index.ts';
import type { ReleaseKeys } from '../features/releases/index.ts';
import { RECOVERY_WORK } from '../features/disaster-recovery/index.ts';
import { ACCESS_CHANNEL, type Cluster, createHub, type Hub, joinCluster } from '../hub/index.ts';
import type { CloseStack } from '../platform/close-stack.ts';
import type { UpgradeHistory } from '../hub/ports.ts';
import { sessionUrlOf } from '../platform/db/database.ts';
import { DatabaseNotifications } from '../platform/db/notifications.ts';
import type { Infrastructure, ServerOptions } from './infrastructure.ts';
import type { Services } from './services.ts';

export interface LiveSide {
  hub: Hub;
  groups: DynamicGroupSync;
  credentials: CachedAgentCredentials;
  upgradeHistory: UpgradeHistory;
  /** Does now what waits for a timer, in the order in which one part causes work in the next. */
  settle(): Promise<void>;
}

/**
 * The hub with what it needs from above. It is built before it is started: the database and Redis report to it, and it
 * reports to the groups, so each of these is handed a function that finds the others when it is called.
 */
export async function createLiveSide(
  infrastructure: Infrastructure,
  { audit, authenticator, apiKeys, logReads, releases, work }: Services & { work: WorkEngine },
  timing: ServerOptions['hub'],
  closing: CloseStack,
): Promise<LiveSide> {
  const { config, database, expensiveLive: expensive, httpServer, log, metrics } = infrastructure;
  const { connections, nodeId, proxyTrust, urls } = infrastructure;
  const db = database.hubPool;
  let hub: Hub | undefined;
  let groups: DynamicGroupSync | undefined;

  // One connection for all channels: it keeps its session, so no pooler shares it out.
  const notifications = new DatabaseNotifications({ url: sessionUrlOf(urls), log });
  notifications.listen({
    channel: ACCESS_CHANNEL,
    onNotifications: (payloads) => hub?.accessChanged(payloads),
    onReturn: () => hub?.accessMayHaveChanged(),
  });
  notifications.listen({
    channel: longWorkFeed.LONG_WORK_CHANNEL,
    onNotifications: (payloads) => hub?.longWorkChanged(payloads),
    onReturn: () => hub?.longWorkMayHaveChanged(),
  });
  const board = createUpgradeOfferCache(infrastructure, releases.keys, notifications);
  await closing.start('notifications', notifications);
  const isInTouch = () => notifications.isInTouch;
  const credentials = new CachedAgentCredentials(db, isInTouch);
  const cluster = await joinConfiguredCluster(infrastructure, () => hub, closing);

  // It is listened to already: no change is missed between the first read and the first notification.
  await closing.start('upgrade offers', board);
  const upgradeHistory = createUpgradeHistory(db, (...which) => board.rolloutOf(...which));

  const ruleBook = new RuleBook({ db, log });
  await closing.start('alert rules in memory', ruleBook);
  const figureWatch = new FigureWatch({ db, log, book: ruleBook });
  const metricHistory = createMetricStore({
    db,
    log,
    metrics,
    onStored: (figures) => figureWatch.sampled(figures),
  });

  const built = createHub({
    httpServer,
    nodeId,
    ...(cluster === undefined
      ? {}
      : {
          bus: cluster.bus,
          directory: cluster.directory,
          nodes: cluster.nodes,
          reach: cluster.reach,
        }),
    store: createDeviceStore({
      db,
      nodeId,
      audit,
      log,
      expensive,
      onHeard(records) {
        groups?.touched(
          records.map(({ deviceId }) => deviceId),
          'heard',
        );
        figureWatch.heard(records);
      },
      onPresence(deviceIds) {
        groups?.touched(deviceIds, 'turned');
        work.devicesTurned(deviceIds);
        metricHistory.presenceTurned(deviceIds);
      },
    }),
    onDevicesChanged: (deviceIds) => groups?.touched(deviceIds, 'recorded'),
    fleet: createFleetStore({ db, expensive }),
    credentials,
    longWork: longWorkFeed.createLongWork(db, [CLOUD_WORK, RECOVERY_WORK]),
    ledger: createCommandLedger({
      db,
      nodeId,
      encryptor: infrastructure.secrets,
      onEnded: (types) => work.commandsEnded(types),
    }),
    upgrades: { offers: board, history: upgradeHistory },
    metricHistory,
    deviceServices: createServiceStore(db),
    logReads,
    terminals: createTerminalStore({ db, encryptor: infrastructure.secrets, audit, log }),
    people: { ...authenticator, countUse: (caller) => apiKeys.countUse(caller) },
    isInTouch,
    heartbeatSeconds: config.heartbeatSeconds,
    agentWire: config.agentWire,
    proxyTrust,
    log,
    metrics,
    ...timing,
  });
  hub = built;
  closing.add('connections', async () => {
    const ended = connections.end();
    await built.close();
    await ended;
  });

  const groupSync = new DynamicGroupSync({ db, hub, log });
  groups = groupSync;
  groupSync.subscribe(hub.events);
  followChangesOfConditions(hub);
  closing.add('groups', () => groupSync.close());
  metrics.gauge('muster_groups_failing', 'Dynamic groups that could not be brought up to date.', () =>
    groupSync.failing(),
  );
  return {
    hub,
    groups,
    credentials,
    upgradeHistory,
    async settle() {
      await notifications.settle();
      await board.settle();
      await built.settle();
      await metricHistory.settle();
      await ruleBook.settle();
      await figureWatch.settle();
      await groupSync.settle();
      // Shows what the groups have changed.
      await built.settle();
    },
  };
}

function createUpgradeOfferCache(
  { baseUrl, database, log, metrics }: Infrastructure,
  keys: ReleaseKeys,
  notifications: DatabaseNotifications,
): UpgradeOfferCache {
  const board = new UpgradeOfferCache({
    read: (...which) => readUpgradeOffers(database.hubPool, keys, ...which),
    baseUrl,
    isInTouch: () => notifications.isInTouch,
    log,
  });
  notifications.listen({
    channel: UPGRADES_CHANNEL,
    onNotifications: (payloads) => board.notified(payloads),
    onReturn: () => board.mayHaveMissed(),
  });
  metrics.gauge(
    'muster_upgrade_devices_held',
    'Devices that are being upgraded, were asked to upgrade, or wait after failures.',
    () => board.heldDevices,
  );
  return board;
}

async function joinConfiguredCluster(
  { redis, nodeId, log, metrics }: Infrastructure,
  hub: () => Hub | undefined,
  closing: CloseStack,
): Promise<Cluster | undefined> {
  if (redis === undefined) return undefined;
  const cluster = await joinCluster({
    redis,
    nodeId,
    onSuperseded: (deviceId, epoch) => hub()?.superseded(deviceId, epoch),
    onTied: (deviceId) => hub()?.claimTied(deviceId),
    onReturn: () => hub()?.republish(),
    log,
    metrics,
  });
  closing.add('cluster', async () => {
    // The hub, which closes first, has already announced to the other nodes that this one leaves.
    await cluster.bus.close();
    await cluster.close();
  });
  return cluster;
}
