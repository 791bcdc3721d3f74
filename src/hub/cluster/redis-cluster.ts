import { RedisClaims } from '../../platform/cluster/redis-claims.ts';
import { RedisNodeBus } from '../../platform/cluster/redis-bus.ts';
import type { RedisConnection } from '../../platform/cluster/redis-connection.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { Directory, Reach } from './directory.ts';
import type { HubMessage } from './messages.ts';

/**
 * The connection between the hubs of several processes: the bus, the directory of owners, and the set of live nodes.
 */
export interface Cluster {
  bus: RedisNodeBus<HubMessage>;
  directory: Directory;
  nodes: () => ReadonlySet<string> | undefined;
  reach: Reach;
  close(): Promise<void>;
}

/** Throws `NodeIdTakenError`. While Redis is unavailable each node works alone, and joins when Redis is back. */
export async function joinCluster(parts: {
  redis: RedisConnection;
  nodeId: string;
  /** Another node has claimed the device while this one could not be notified. */
  onSuperseded: (deviceId: string, epoch: number) => void;
  /** The device has to be claimed again. */
  onTied: (deviceId: string) => void;
  /** Redis is back or has lost its data. */
  onReturn: () => void;
  log: Logger;
  metrics: Metrics;
}): Promise<Cluster> {
  const { redis, nodeId, log, metrics } = parts;
  const subscriber = await redis.openSubscriber();
  try {
    const bus = await RedisNodeBus.join<HubMessage>({ nodeId, redis, subscriber, log });
    const directory = new RedisClaims({
      redis,
      name: 'devices',
      nodeId,
      isGone: (id) => bus.isGone(id),
      onOutdated: parts.onSuperseded,
      onTied: parts.onTied,
      onUnanswered: (deviceId, epoch) => {
        void bus.broadcast({ kind: 'superseded', deviceId, epoch }).catch(() => undefined);
      },
      onReplaced: (owner, deviceId, epoch) => {
        // A node that misses this announces its own claim again when it returns, and learns of the newer one then.
        void bus.send(owner, { kind: 'superseded', deviceId, epoch }).catch(() => false);
      },
      log,
    });
    bus.onReturn(() => {
      parts.onReturn();
      directory.announce();
    });
    metrics.gauge('muster_cluster_nodes', 'Live nodes, including this one.', () => bus.nodes?.size ?? 0);
    metrics.gauge(
      'muster_cluster_refused_frames',
      'Invalid frames on the channels of the cluster.',
      () => bus.refused,
    );
    return {
      bus,
      directory,
      nodes: () => bus.nodes,
      reach: redis,
      async close() {
        directory.close();
        await subscriber.close();
      },
    };
  } catch (error) {
    await subscriber.close();
    throw error;
  }
}
