import { Redis } from 'ioredis';
import { clock } from '../../clock.ts';
import { parseRedisUrl } from '../../redis-url.ts';
import { openClient } from './redis-shards.ts';
import { sentinelOptions } from './redis.ts';

interface RedisState {
  version: string;
  usedBytes: number;
  /** 0: no limit. */
  maxBytes: number;
  /** Its policy when it is full, such as `noeviction`. */
  evictionPolicy: string;
}

const PROBE_MS = 4000;
const PROBE = {
  connectionName: 'muster-doctor',
  connectTimeout: PROBE_MS,
  commandTimeout: PROBE_MS,
  maxRetriesPerRequest: 0,
} as const;

/**
 * Asks Redis about itself, once: the one server, the master that the Sentinels name, or each master of a cluster. Rejects
 * if one of them does not answer.
 */
export async function redisStates(url: string): Promise<RedisState[]> {
  const place = parseRedisUrl(url);
  const options = { ...PROBE, lazyConnect: true, retryStrategy: () => null };
  const client =
    place.kind === 'cluster'
      ? openClient(place, {
          lazyConnect: true,
          clusterRetryStrategy: () => null,
          slotsRefreshTimeout: PROBE_MS,
        })
      : place.kind === 'single'
        ? new Redis(place.url, options)
        : new Redis({ ...options, ...sentinelOptions(place), sentinelRetryStrategy: () => null });
  let reason: Error | undefined;
  const notice = (error: Error) => {
    reason ??= 'lastNodeError' in error && error.lastNodeError instanceof Error ? error.lastNodeError : error;
  };
  client.on('error', notice);
  client.on('node error', notice);
  try {
    // A cluster whose servers do not know their own addresses would be asked for them for ever.
    const late = clock.sleep(2 * PROBE_MS, { unref: true }).then(() => {
      throw new Error('it has not told its servers in time');
    });
    await Promise.race([client.connect(), late]);
    const servers = client instanceof Redis ? [client] : client.nodes('master');
    return await Promise.all(servers.map(stateOf));
  } catch (error) {
    // The client reports only that its connection is closed; it has reported the reason before.
    throw reason ?? error;
  } finally {
    client.disconnect();
  }
}

async function stateOf(server: Redis): Promise<RedisState> {
  const info = `${await server.info('server')}\n${await server.info('memory')}`;
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\s*$`, 'm').exec(info)?.[1] ?? '';
  return {
    version: field('redis_version'),
    usedBytes: Number(field('used_memory')),
    maxBytes: Number(field('maxmemory')),
    evictionPolicy: field('maxmemory_policy'),
  };
}
