import type { RedisConnection } from '../../platform/cluster/redis.ts';

/** Whether this node reaches the other nodes. While it does not, what it knows of their devices grows old. */
export interface Reach {
  isWhole(): boolean;
  onChange(callback: (isWhole: boolean) => void): void;
}

export function reachThroughRedis({ client }: Pick<RedisConnection, 'client'>): Reach {
  let isWhole = client.status === 'ready';
  const callbacks: ((isWhole: boolean) => void)[] = [];
  const become = (now: boolean) => {
    // Each attempt to connect that fails closes once more.
    if (now === isWhole) return;
    isWhole = now;
    for (const callback of callbacks) callback(now);
  };
  client.on('ready', () => become(true));
  client.on('close', () => become(false));
  return { isWhole: () => isWhole, onChange: (callback) => void callbacks.push(callback) };
}
