import { createCommandLedger } from '../features/commands/index.ts';
import { CachedAgentCredentials, createDeviceStore } from '../features/devices/index.ts';
import { DynamicGroupSync } from '../features/groups/index.ts';
import { createFleetStore, recompileOnDefinitionChanges } from '../features/live-filters/index.ts';
import { ACCESS_CHANNEL, type Cluster, createHub, type Hub, joinCluster } from '../hub/index.ts';
import type { CloseStack } from '../platform/close-stack.ts';
import { DatabaseNotifications } from '../platform/db/connections/notifications.ts';
import type { Infrastructure } from './infrastructure.ts';
import type { ServerOptions } from './options.ts';
import type { Services } from './services.ts';

export interface LiveSide {
  hub: Hub;
  groups: DynamicGroupSync;
  credentials: CachedAgentCredentials;
}

/**
 * The hub with what it needs from above. It is built before it is started: the database and Redis report to it, and it
 * reports to the groups, so each of these is handed a function that finds the others when it is called.
 */
export async function createLiveSide(
  infrastructure: Infrastructure,
  { audit, authenticator, apiKeys, logReads }: Services,
  timing: ServerOptions['hub'],
  closing: CloseStack,
): Promise<LiveSide> {
  const { config, database, expensiveLive: expensive, httpServer, log, metrics } = infrastructure;
  const { connections, nodeId, proxyTrust, urls } = infrastructure;
  const db = database.hubPool;
  let hub: Hub | undefined;
  let groups: DynamicGroupSync | undefined;

  const notifications = new DatabaseNotifications({
    url: urls.appUrl,
    channel: ACCESS_CHANNEL,
    onNotifications: (payloads) => hub?.accessChanged(payloads),
    onReturn: () => hub?.accessMayHaveChanged(),
    log,
  });
  await closing.start('notifications', notifications);
  const isInTouch = () => notifications.isInTouch;
  const credentials = new CachedAgentCredentials(db, isInTouch);
  const cluster = await joinConfiguredCluster(infrastructure, () => hub, closing);

  const built = createHub({
    httpServer,
    nodeId,
    ...(cluster === undefined
      ? {}
      : {
          bus: cluster.bus,
          directory: cluster.directory,
          nodes: cluster.nodes,
          joinDashboards: cluster.joinDashboards,
        }),
    store: createDeviceStore({
      db,
      nodeId,
      audit,
      log,
      expensive,
      onHeard: (deviceIds) => groups?.touched(deviceIds, 'heard'),
      onPresence: (deviceIds) => groups?.touched(deviceIds, 'turned'),
    }),
    onDevicesChanged: (deviceIds) => groups?.touched(deviceIds, 'recorded'),
    fleet: createFleetStore({ db, expensive }),
    credentials,
    ledger: createCommandLedger({ db, nodeId, sealer: infrastructure.secrets }),
    logReads,
    people: { ...authenticator, countUse: (caller) => apiKeys.countUse(caller) },
    isInTouch,
    heartbeatSeconds: config.heartbeatSeconds,
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
  recompileOnDefinitionChanges(hub);
  closing.add('groups', () => groupSync.close());
  metrics.gauge('muster_groups_failing', 'Dynamic groups that could not be brought up to date.', () =>
    groupSync.failing(),
  );
  return { hub, groups, credentials };
}

async function joinConfiguredCluster(
  { config, redis, nodeId, log, metrics }: Infrastructure,
  hub: () => Hub | undefined,
  closing: CloseStack,
): Promise<Cluster | undefined> {
  const { redisUrl } = config;
  if (redis === undefined || redisUrl === undefined) return undefined;
  const cluster = await joinCluster({
    redisUrl,
    redis,
    nodeId,
    onSuperseded: (deviceId, epoch) => hub()?.superseded(deviceId, epoch),
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
