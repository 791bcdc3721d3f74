import { clock } from '../../../clock.ts';
import type { GuardedFetch, OpenAnswer } from '../../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../../platform/outbound/outbound-error.ts';
import { retryAfterMs } from './retry-schedule.ts';
import { signedHeaders } from './signature.ts';

export interface Message {
  /** The same for all attempts and replays, so that receivers recognize what they have already. */
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
  /** The receiver has asked for this pause. */
  retryAfterMs?: number | undefined;
}

interface Destination {
  url: string;
  secrets: readonly string[];
}

/** More than any event of the catalogue has. */
const LONGEST_BODY = 256 * 1024;
const EXCERPT_BYTES = 1024;
const EXCERPT_MS = 2000;
const ASKS_FOR_PAUSE = new Set([429, 503]);

/**
 * Sends a message once. What the receiver does wrong is an outcome.
 * @throws the reason of `signal`, when that ended it
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

/** The beginning of the body. One that comes slowly, or breaks off, changes nothing about the outcome. */
async function excerptOf(answer: OpenAnswer): Promise<string | null> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  const limit = clock.setTimeout(() => answer.leave(), EXCERPT_MS);
  try {
    for await (const piece of answer.body) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes >= EXCERPT_BYTES) break;
    }
  } catch {
    // What came before that is shown.
  } finally {
    clock.clear(limit);
    answer.leave();
  }
  if (bytes === 0) return null;
  const text = Buffer.concat(pieces).subarray(0, EXCERPT_BYTES).toString('utf8');
  // The database stores no NUL, and a person reads no control characters.
  return text.replaceAll(/[^\P{C}\n\t]/gu, '\u{fffd}').slice(0, EXCERPT_BYTES);
}
