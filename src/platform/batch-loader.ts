import { clock } from '../clock.ts';

interface Waiter<V> {
  resolve: (value: V | undefined) => void;
  reject: (error: unknown) => void;
}

/**
 * Combines lookups that are made within the same few milliseconds, or while the previous batch is loading, into one
 * call of `load`. Callers that ask for the same key share one answer.
 * @param load  returns the values for all keys of a batch; a key that it leaves out resolves to `undefined`
 */
export function batchLoader<K, V>(
  load: (keys: readonly K[]) => Promise<ReadonlyMap<K, V>>,
  { withinMs, atMost }: { withinMs: number; atMost: number },
): (key: K) => Promise<V | undefined> {
  const pending = new Map<K, Waiter<V>[]>();
  let isLoading = false;

  const loadBatch = async () => {
    const batch = [...pending].slice(0, atMost);
    for (const [key] of batch) pending.delete(key);
    try {
      const found = await load(batch.map(([key]) => key));
      for (const [key, waiters] of batch) for (const waiter of waiters) waiter.resolve(found.get(key));
    } catch (error) {
      for (const [, waiters] of batch) for (const waiter of waiters) waiter.reject(error);
    }
  };
  const loadAll = async () => {
    while (pending.size > 0) await loadBatch();
    isLoading = false;
  };

  return (key) =>
    new Promise((resolve, reject) => {
      const waiter = { resolve, reject };
      const waiters = pending.get(key);
      if (waiters === undefined) pending.set(key, [waiter]);
      else waiters.push(waiter);
      if (isLoading) return;
      isLoading = true;
      clock.setTimeout(() => void loadAll(), withinMs);
    });
}
