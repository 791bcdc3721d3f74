import { Redis } from 'ioredis';
import type { Logger } from '../logger.ts';

interface RedisState {
  version: string;
  usedBytes: number;
  /** 0: no limit. */
  maxBytes: number;
  /** Its policy when it is full, such as `noeviction`. */
  evictionPolicy: string;
}

const PROBE_MS = 4000;

/** Asks Redis about itself, once. Rejects if it does not answer. */
export async function redisState(url: string): Promise<RedisState> {
  const client = new Redis(url, {
    connectionName: 'muster-doctor',
    lazyConnect: true,
    connectTimeout: PROBE_MS,
    commandTimeout: PROBE_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  let reason: Error | undefined;
  client.on('error', (error: Error) => {
    reason ??= error;
  });
  try {
    await client.connect();
    const info = `${await client.info('server')}\n${await client.info('memory')}`;
    const field = (name: string) => new RegExp(`^${name}:(.*?)\\s*$`, 'm').exec(info)?.[1] ?? '';
    return {
      version: field('redis_version'),
      usedBytes: Number(field('used_memory')),
      maxBytes: Number(field('maxmemory')),
      evictionPolicy: field('maxmemory_policy'),
    };
  } catch (error) {
    // The client reports only that its connection is closed; it has reported the reason before.
    throw reason ?? error;
  } finally {
    client.disconnect();
  }
}

/** A command that Redis has not answered within this time fails. */
const COMMAND_MS = 500;
/** A connection that has owed an answer for this long is dropped, so that later commands fail at once. */
const SILENCE_MS = 1000;
const CONNECT_MS = 2000;
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2000;

export interface RedisConnection {
  /** Its commands fail at once while Redis is away; none are queued until it returns. */
  readonly client: Redis;
  /** Whether it answers at this moment. */
  isUp(): Promise<boolean>;
  close(): Promise<void>;
}

/**
 * Opens one connection, which reconnects for as long as the process lives. Redis may be lost at any time, also during
 * the start: this waits for the first attempt, whether it succeeds or not.
 * @param logs  false for a second connection to the same Redis, so that its loss and return are logged once
 */
export async function openRedis(
  url: string,
  log: Logger,
  { logs = true }: { logs?: boolean } = {},
): Promise<RedisConnection> {
  const { hostname, port, protocol } = new URL(url);
  // Never the URL itself, which holds the password.
  const redis = `${protocol}//${hostname}:${port === '' ? '6379' : port}`;
  let lost = false;
  let closing = false;
  let reason: string | undefined;
  const client = new Redis(url, {
    connectionName: 'muster',
    connectTimeout: CONNECT_MS,
    commandTimeout: COMMAND_MS,
    socketTimeout: SILENCE_MS,
    enableOfflineQueue: false,
    // A command that was sent before the connection broke may have taken effect: it fails and is not sent twice.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // The client would not catch the failure of a subscription that it repeats, which would end the process. The bus
    // subscribes again itself.
    autoResubscribe: false,
    retryStrategy: retryAfterMs,
    // After a failover this connection may lead to a server that is now a replica.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
  });
  client.on('error', (error: Error) => {
    reason = reasonOf(error);
  });
  client.on('ready', () => {
    if (lost && logs) log.info({ redis }, 'redis.regained');
    lost = false;
    reason = undefined;
  });
  client.on('close', () => {
    if (!lost && !closing && logs) log.warn({ redis, reason }, 'redis.lost');
    lost = true;
  });
  await new Promise<void>((resolve) => {
    client.once('ready', resolve);
    client.once('close', resolve);
  });
  return {
    client,
    isUp: () =>
      client.ping().then(
        () => true,
        () => false,
      ),
    async close() {
      closing = true;
      // Redis may be away: then the connection needs no farewell.
      await client.quit().catch(() => undefined);
      client.disconnect();
    },
  };
}

/** Doubling up to a bound, and spread: many nodes lose it in the same moment. */
function retryAfterMs(attempt: number): number {
  const most = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(attempt, 10));
  return Math.round(most / 2 + Math.random() * (most / 2));
}

/**
 * Takes only the code of an error of Redis: Redis quotes a command that it refuses, and the first one carries the
 * password.
 */
function reasonOf(error: Error): string {
  if ('code' in error && typeof error.code === 'string') return error.code;
  return error.name === 'ReplyError' ? (error.message.split(' ', 1)[0] ?? error.name) : error.message;
}
