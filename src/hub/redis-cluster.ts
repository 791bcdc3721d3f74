import { RedisClaims } from '../platform/cluster/redis-claims.ts';
import { RedisNodeBus } from '../platform/cluster/redis-bus.ts';
import { openRedis, type RedisConnection } from '../platform/cluster/redis.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import { joinDashboards } from './dashboard/dashboard-adapter.ts';
import type { DashboardNamespace } from './dashboard/dashboard-transport.ts';
import type { Directory } from './cluster/directory.ts';
import type { HubMessage } from './cluster/router.ts';

/** What makes one hub of several processes: how they speak, who holds which device, and who is there. */
export interface Cluster {
  bus: RedisNodeBus<HubMessage>;
  directory: Directory;
  nodes: () => ReadonlySet<string> | undefined;
  joinDashboards: (namespace: DashboardNamespace) => void;
  close(): Promise<void>;
}

/** Throws `NodeIdTakenError`. While Redis is away each node goes on by itself, and joins when it comes. */
export async function joinCluster(parts: {
  redisUrl: string;
  redis: RedisConnection;
  nodeId: string;
  /** Another node has claimed the device since, while this one could not be told. */
  onSuperseded: (deviceId: string, epoch: number) => void;
  /** Redis is back, or has lost what it had. */
  onReturn: () => void;
  log: Logger;
  metrics: Metrics;
}): Promise<Cluster> {
  const { redis, nodeId, log, metrics } = parts;
  const subscriber = await openRedis(parts.redisUrl, log, { tells: false });
  try {
    const bus = await RedisNodeBus.join<HubMessage>({ nodeId, redis, subscriber, log });
    const directory = new RedisClaims({
      redis,
      name: 'devices',
      nodeId,
      isGone: (id) => bus.isGone(id),
      onUntold: () => bus.returnAgain(),
      onOutdated: parts.onSuperseded,
      onReplaced: (holder, deviceId, epoch) => {
        // One that cannot be told now tells its own claim again when it can be, and hears then.
        void bus.send(holder, { kind: 'superseded', deviceId, epoch }).catch(() => false);
      },
      log,
    });
    bus.onReturn(() => {
      parts.onReturn();
      directory.announce().catch((error: unknown) => {
        log.warn({ err: error }, 'cluster.claims_not_told');
        bus.returnAgain();
      });
    });
    let refused = 0;
    metrics.gauge(
      'muster_cluster_nodes',
      'Nodes that are there, this one among them.',
      () => bus.nodes?.size ?? 0,
    );
    metrics.gauge(
      'muster_cluster_refused_frames',
      'Frames on our channels that could not be read.',
      () => bus.refused + refused,
    );
    return {
      bus,
      directory,
      nodes: () => bus.nodes,
      joinDashboards: (namespace) =>
        joinDashboards(namespace, { redis, subscriber, onRefused: () => (refused += 1) }),
      close: () => subscriber.close(),
    };
  } catch (error) {
    await subscriber.close();
    throw error;
  }
}
