import { askedDelay, reconnectDelay, refusedDelay } from './back-off.ts';
import type { ServerAnswer } from './server-call.ts';

/** What becomes of a batch, by what the server has answered. Pure. */
export type BatchVerdict =
  | { do: 'done' }
  /** Without the records that the server named. */
  | { do: 'resend'; without: ReadonlySet<number> }
  | { do: 'give-up'; why: string }
  /** The token was refused: with another one, if there is one. */
  | { do: 'other-token' }
  | { do: 'wait'; ms: number };

export function batchVerdict(
  answer: Pick<ServerAnswer, 'status' | 'body' | 'refusal' | 'retryAfterMs'>,
  failures: number,
  random: () => number,
): BatchVerdict {
  const { status, retryAfterMs } = answer;
  if (status >= 200 && status < 300) return { do: 'done' };
  if (status === 400) {
    const named = namedRecords(answer.body);
    return named.size > 0 ? { do: 'resend', without: named } : { do: 'give-up', why: answer.refusal ?? '' };
  }
  if (status === 413 || status === 415 || status === 422) {
    return { do: 'give-up', why: answer.refusal ?? '' };
  }
  if (status === 401) return { do: 'other-token' };
  if (retryAfterMs !== undefined) return { do: 'wait', ms: askedDelay(retryAfterMs, random) };
  // Otherwise a server of before this existed, or one that does not want it: people have to change something.
  const passes = status >= 500 || status === 429 || status === 408;
  return { do: 'wait', ms: (passes ? reconnectDelay : refusedDelay)(failures, random) };
}

/** The places in the batch that a 400 names: `body.events.3.message`. */
function namedRecords(body: unknown): Set<number> {
  const named = new Set<number>();
  if (typeof body !== 'object' || body === null || !('details' in body)) return named;
  if (!Array.isArray(body.details)) return named;
  for (const issue of body.details as unknown[]) {
    if (typeof issue !== 'object' || issue === null || !('path' in issue)) continue;
    const found = /^body\.\w+\.(\d+)(\.|$)/.exec(String(issue.path));
    if (found !== null) named.add(Number(found[1]));
  }
  return named;
}
