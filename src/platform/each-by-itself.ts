import { isDatabaseAway } from './db/database-errors.ts';

/**
 * Does the same for each item, one after another. An item that fails keeps no other from its turn: rounds go over the
 * records of all tenants. A database that is away fails them all, and so ends the round.
 * @param onFailed  called with each failure, after which the next item has its turn
 * @returns how many have failed
 */
export async function eachByItself<T>(
  items: readonly T[],
  work: (item: T) => Promise<unknown>,
  onFailed: (error: unknown, item: T) => unknown,
): Promise<number> {
  let failed = 0;
  for (const item of items) {
    try {
      await work(item);
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      failed += 1;
      await onFailed(error, item);
    }
  }
  return failed;
}
