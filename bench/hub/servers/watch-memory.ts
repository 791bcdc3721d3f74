/** Heap and external memory after a collection, in KiB. The process must run with --expose-gc. */
export function watchMemory(): { heldKiB: number; rssKiB: number } {
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heldKiB: (heapUsed + external) / 1024, rssKiB: rss / 1024 };
}
