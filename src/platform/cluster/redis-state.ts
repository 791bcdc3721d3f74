import { Redis } from 'ioredis';

export interface RedisState {
  version: string;
  usedBytes: number;
  /** 0: no limit. */
  maxBytes: number;
  /** What it does when it is full, such as `noeviction`. */
  evictionPolicy: string;
}

const CONNECT_MS = 4000;

/** Asks Redis about itself, once. Rejects where it does not answer. */
export async function redisState(url: string): Promise<RedisState> {
  const client = new Redis(url, {
    connectionName: 'muster-doctor',
    lazyConnect: true,
    connectTimeout: CONNECT_MS,
    commandTimeout: CONNECT_MS,
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
    // The client says only that its connection is closed; why, it has said before.
    throw reason ?? error;
  } finally {
    client.disconnect();
  }
}
