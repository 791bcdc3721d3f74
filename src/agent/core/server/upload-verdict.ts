import { requestedDelay, reconnectDelay, refusedDelay } from './back-off.ts';
import type { ServerAnswer } from './server-call.ts';

/** What to do with an upload after the server's response. Pure. */
export type UploadVerdict =
  | { do: 'done' }
  /** Without the records that the server has named. */
  | { do: 'resend'; without: ReadonlySet<number> }
  | { do: 'give-up'; why: string }
  /** The token was refused. If there is another one, try that. */
  | { do: 'other-token' }
  | { do: 'wait'; ms: number };

export function uploadVerdict(
  answer: Pick<ServerAnswer, 'status' | 'body' | 'refusal' | 'retryAfterMs'>,
  failures: number,
  random: () => number,
): UploadVerdict {
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
  if (retryAfterMs !== undefined) return { do: 'wait', ms: requestedDelay(retryAfterMs, random) };
  // Other refusals last until somebody changes the server, such as one that is too old for this upload.
  const isTemporary = status >= 500 || status === 429 || status === 408;
  return { do: 'wait', ms: (isTemporary ? reconnectDelay : refusedDelay)(failures, random) };
}

/** The indexes in the batch that a 400 names, as in `body.events.3.message`. */
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
