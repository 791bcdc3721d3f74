export interface BackOff {
  /** Before the second attempt. The wait doubles with each further attempt, up to `longestMs`. */
  firstMs: number;
  longestMs: number;
}

/**
 * How long to wait after the given attempt has failed. Up to a fifth is taken away at random, so that jobs that failed
 * together do not come back together.
 * @param random  from 0 to 1
 */
export function retryDelayMs(attempt: number, { firstMs, longestMs }: BackOff, random: number): number {
  const fullMs = Math.min(firstMs * 2 ** (attempt - 1), longestMs);
  return Math.round(fullMs * (1 - random / 5));
}
