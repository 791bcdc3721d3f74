import { Redis } from 'ioredis';
import { describeRedis, parseRedisUrl, type RedisBySentinels, type RedisPlace } from '../../redis-url.ts';
import type { Logger } from '../logger.ts';
import {
  COMMAND_MS,
  CONNECTION,
  reasonOf,
  type RedisConnection,
  RedisLink,
  type RedisSubscriber,
  retryAfterMs,
} from './redis-connection.ts';
import { openRedisCluster } from './redis-shards.ts';

/**
 * Opens a connection, which reconnects for as long as the process lives. Redis may be lost at any time, also during
 * the start: this waits for the first attempt, whether it succeeds or not.
 */
export async function openRedis(url: string, log: Logger): Promise<RedisConnection> {
  const place = parseRedisUrl(url);
  if (place.kind === 'cluster') return openRedisCluster(place, log);
  const { client, link, close } = await openOne(place, log);
  return {
    client,
    isSharded: false,
    isUp: () =>
      client.ping().then(
        () => true,
        () => false,
      ),
    isWhole: () => link.isWhole,
    onChange: (handler) => link.onChange(handler),
    publish: (channel, text) => client.publish(channel, text),
    openSubscriber: () => openSubscriber(place),
    close,
  };
}

type OnePlace = Exclude<RedisPlace, { kind: 'cluster' }>;

/** One server, or the one that is the master at the moment by the word of the Sentinels. */
async function openOne(place: OnePlace, log?: Logger) {
  const link = new RedisLink(describeRedis(place), log);
  let reason: string | undefined;
  const options = {
    ...CONNECTION,
    enableOfflineQueue: false,
    retryStrategy: retryAfterMs,
    // After a failover this connection may lead to a server that is now a replica.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  };
  const client =
    place.kind === 'single'
      ? new Redis(place.url, options)
      : new Redis({ ...options, ...sentinelOptions(place), sentinelRetryStrategy: retryAfterMs });
  await new Promise<void>((resolve) => {
    const lost = () => {
      link.lost(reason);
      resolve();
    };
    client.on('error', (error: Error) => {
      reason = reasonOf(error);
      // While no Sentinel answers there is no connection that could be closed.
      if (place.kind === 'sentinel' && client.status === 'connecting') lost();
    });
    client.on('close', lost);
    client.on('ready', () => {
      reason = undefined;
      link.regained();
      resolve();
    });
  });
  return {
    client,
    link,
    close: async () => {
      link.closing();
      // Redis may be away: then the connection needs no farewell.
      await client.quit().catch(() => undefined);
      client.disconnect();
    },
  };
}

/** How to reach the master. Its address is asked for again with each attempt to connect. */
export function sentinelOptions(place: RedisBySentinels) {
  const { nodes, name, db, tls, username, password, sentinelUsername, sentinelPassword } = place;
  return {
    sentinels: nodes,
    name,
    db,
    sentinelCommandTimeout: COMMAND_MS,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(sentinelUsername === undefined ? {} : { sentinelUsername }),
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
    ...(tls ? { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true } : {}),
  };
}

async function openSubscriber(place: OnePlace): Promise<RedisSubscriber> {
  const { client, close } = await openOne(place);
  let listening: readonly string[] = [];
  let hasListened = client.status === 'ready';
  const missedHandlers: (() => void)[] = [];
  const subscribe = () => {
    if (listening.length > 0) void client.subscribe(...listening).catch(() => 0);
  };
  client.on('ready', () => {
    subscribe();
    if (hasListened) for (const handler of missedHandlers) handler();
    hasListened = true;
  });
  return {
    listen(channels) {
      listening = channels;
      subscribe();
    },
    onMessage: (handler) => void client.on('message', (_channel: string, text: string) => handler(text)),
    onMissed: (handler) => void missedHandlers.push(handler),
    close,
  };
}
