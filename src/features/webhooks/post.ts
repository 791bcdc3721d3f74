import { clock, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../clock.ts';
import type { GuardedFetch, OpenAnswer } from '../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import { signedHeaders } from './signing.ts';

export interface Message {
  /** The same for all attempts and replays, so that receivers recognize duplicates. */
  id: string;
  type: string;
  createdAt: string;
  orgId: string | null;
  data: Record<string, unknown>;
}

export interface Outcome {
  ok: boolean;
  responseStatus: number | null;
  responseExcerpt: string | null;
  durationMs: number;
  /** Null after a success. */
  error: string | null;
  /** The pause that the receiver asked for. */
  retryAfterMs?: number | undefined;
}

interface Destination {
  url: string;
  secrets: readonly string[];
}

const CANNOT_SIGN =
  'The signing secret cannot be opened with the keys of this server. Rotate the secret of the webhook.';
/** More than any event of the catalogue has. */
const LONGEST_BODY = 256 * 1024;
const EXCERPT_BYTES = 1024;
const ELLIPSIS_BYTES = Buffer.byteLength('…');
const EXCERPT_MS = 2000;
const ASKS_FOR_PAUSE = new Set([429, 503]);

/**
 * Sends a message once. A fault of the receiver is returned as an outcome.
 * @throws the reason of `signal`, if that aborted it
 */
export async function post(
  outbound: Pick<GuardedFetch, 'open'>,
  { url, secrets }: Destination,
  message: Message,
  signal: AbortSignal,
): Promise<Outcome> {
  const body = JSON.stringify(message);
  const failed = (error: string) => ({ ok: false, responseStatus: null, responseExcerpt: null, error });
  if (Buffer.byteLength(body) > LONGEST_BODY) {
    return { ...failed('The event is too large to be sent.'), durationMs: 0 };
  }
  if (secrets.length === 0) return { ...failed(CANNOT_SIGN), durationMs: 0 };
  const begun = clock.monotonic();
  const took = () => Math.round(clock.monotonic() - begun);
  try {
    const answer = await outbound.open(url, {
      method: 'POST',
      headers: signedHeaders(secrets, { id: message.id, at: clock.date(), body }),
      body,
      signal,
    });
    const durationMs = took();
    const { status } = answer;
    const ok = status >= 200 && status < 300;
    return {
      ok,
      responseStatus: status,
      responseExcerpt: await excerptOf(answer),
      durationMs,
      error: ok ? null : `The receiver answered ${status}.`,
      retryAfterMs: ASKS_FOR_PAUSE.has(status)
        ? retryAfterMs(answer.headers.get('retry-after'), clock.date())
        : undefined,
    };
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    return { ...failed(error.message), durationMs: took() };
  }
}

/** The beginning of the body, with an ellipsis if there is more. A slow or broken body does not change the outcome. */
export async function excerptOf(answer: OpenAnswer): Promise<string | null> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  let isWhole = false;
  const limit = clock.setTimeout(() => answer.leave(), EXCERPT_MS);
  try {
    for await (const piece of answer.body) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes > EXCERPT_BYTES) break;
    }
    isWhole = bytes <= EXCERPT_BYTES;
  } catch {
    // The part before the failure is shown.
  } finally {
    clock.clear(limit);
    answer.leave();
  }
  if (bytes === 0) return null;
  const kept = Buffer.concat(pieces).subarray(0, isWhole ? EXCERPT_BYTES : EXCERPT_BYTES - ELLIPSIS_BYTES);
  // As a part of a stream, it may end with a part of a character, which is left out.
  const text = new TextDecoder().decode(kept, { stream: !isWhole });
  // The database stores no NUL, and a person reads no control characters.
  return `${text.replaceAll(/[^\P{C}\n\t]/gu, '\u{fffd}')}${isWhole ? '' : '…'}`;
}

/** When a failed delivery is retried, and when the server gives up. These functions are pure. */

/** The waits after the first attempt, the second and so on: 26 hours in total. */
const WAITS_MS = [
  5 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
  2 * HOUR_MS,
  4 * HOUR_MS,
  8 * HOUR_MS,
  10 * HOUR_MS,
];
export const ATTEMPTS_MAX = WAITS_MS.length + 1;

/** Up to a fifth more, so that deliveries that failed together are not retried together. */
const JITTER = 0.2;

/**
 * How long a delivery waits after its attempt number `attempt` failed; undefined after the last one.
 * @param random  from 0 to 1
 */
export function retryWaitMs(attempt: number, random: number): number | undefined {
  const waitMs = WAITS_MS[attempt - 1];
  return waitMs === undefined ? undefined : Math.round(waitMs * (1 + random * JITTER));
}

/** After this many failures in a row, sending pauses. Then one attempt at a time tests whether the receiver is back. */
export const FAILURES_BEFORE_PAUSE = 3;
const LONGEST_PAUSE_MS = 5 * MINUTE_MS;

/** How long sending to a receiver pauses after this many failures in a row. */
export function pauseMs(failures: number): number {
  if (failures < FAILURES_BEFORE_PAUSE) return 0;
  return Math.min(5 * SECOND_MS * 2 ** (failures - FAILURES_BEFORE_PAUSE), LONGEST_PAUSE_MS);
}

/** A webhook is disabled if nothing has been delivered for this long. */
export const FAILING_DAYS = 3;

const LONGEST_RETRY_AFTER_MS = 6 * HOUR_MS;

/** The header `Retry-After`, in seconds or as a date; undefined if it is neither, or in the past. */
export function retryAfterMs(header: string | null, now: Date): number | undefined {
  const text = header?.trim() ?? '';
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * SECOND_MS : Date.parse(text) - now.getTime();
  return ms > 0 ? Math.min(ms, LONGEST_RETRY_AFTER_MS) : undefined;
}
