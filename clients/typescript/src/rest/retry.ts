import { MusterError } from '../error.ts';

/** Which requests are sent again, and when. */
export interface RetryRules {
  /** How often one request is sent again. */
  maxRetries: number;
  /** How long all pauses of one request may take together. */
  maxWaitMs: number;
}

const BASE_MS = 1_000;

/** Whether a request has the same effect when the server receives it twice. */
export const isRepeatable = (method: string, idempotencyKey: string | undefined): boolean =>
  idempotencyKey !== undefined || ['GET', 'PUT', 'DELETE'].includes(method);

/** Repeats the attempt while the server puts it off (429 and 503), within the rules. */
export async function repeated<T>(
  attempt: () => Promise<T>,
  { maxRetries, maxWaitMs }: RetryRules,
  signal: AbortSignal | undefined,
): Promise<T> {
  let waited = 0;
  for (let retries = 0; ; retries++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof MusterError) || (error.status !== 429 && error.status !== 503)) throw error;
      const waitMs = pauseOf(error, retries);
      waited += waitMs;
      if (retries >= maxRetries || waited > maxWaitMs) throw error;
      await pause(waitMs, signal);
    }
  }
}

/** As long as the server wants, or twice as long each time; a little longer, so that many clients do not come back at once. */
function pauseOf({ retryAfterMs }: MusterError, retries: number): number {
  return (retryAfterMs ?? BASE_MS * 2 ** retries) * (1 + Math.random() / 10);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      // As `fetch` does.
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}
