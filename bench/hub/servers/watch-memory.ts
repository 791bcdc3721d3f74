/** What the process holds, collected first: heap and what lies outside of it, in KiB. It must run with --expose-gc. */
export function watchMemory(): { heldKiB: number; rssKiB: number } {
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heldKiB: (heapUsed + external) / 1024, rssKiB: rss / 1024 };
}
