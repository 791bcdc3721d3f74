import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { GuardedFetch, GuardedRequest, OpenAnswer } from '../../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../../platform/outbound/outbound-error.ts';
import type { AccessTokens, AppCredentials } from './access-tokens.ts';
import { GraphError, invalidAnswer } from './graph-error.ts';
import { retryAfterMs, type Throttle } from './throttle.ts';

/** Of one JSON answer: a page of contacts with long notes is smaller. */
const JSON_MAX = 16 << 20;
const ATTEMPTS = 6;
const LONGEST_PAUSE_MS = 30_000;
const PASSING_STATUSES: ReadonlySet<number> = new Set([500, 502, 503, 504]);
const UNPROCESSED_STATUSES: ReadonlySet<number> = new Set([429, 503]);
const PASSING_FAILURES: ReadonlySet<string> = new Set(['unreachable', 'timed_out', 'invalid_response']);

interface Parts {
  /** For what is read into memory. */
  fetch: Pick<GuardedFetch, 'fetch'>;
  /** For files. */
  files: Pick<GuardedFetch, 'open' | 'fetch'>;
  graphUrl: string;
  tokens: AccessTokens;
  credentials: AppCredentials;
  throttle: Throttle;
  /** Connections are kept for requests of this connection only. */
  owner: string;
  signal: AbortSignal;
  /** Of the first pause after a failure; it doubles. */
  pauseMs?: number;
}

export interface GraphRequest {
  method?: GuardedRequest['method'];
  /** A value for JSON; a text is sent as it is. */
  body?: unknown;
  headers?: Readonly<Record<string, string>>;
  maxBytes?: number;
}

const Failure = z.object({
  error: z.object({ code: z.string().max(200).default(''), message: z.string().max(20_000).default('') }),
});

/** Microsoft Graph as one app in one directory. It obeys throttling and repeats what may pass. */
export class GraphClient {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get signal(): AbortSignal {
    return this.#parts.signal;
  }

  /** An address below the one of Graph. Answers may not lead anywhere else, because they would get the access token. */
  url(place: string): string {
    const base = new URL(`${this.#parts.graphUrl}/`);
    const isPath = place.startsWith('/');
    const url = URL.canParse(isPath ? `${this.#parts.graphUrl}${place}` : place)
      ? new URL(isPath ? `${this.#parts.graphUrl}${place}` : place)
      : undefined;
    if (url?.origin !== base.origin || !url.pathname.startsWith(base.pathname)) {
      throw invalidAnswer('it leads to another host');
    }
    return url.href;
  }

  /** @throws GraphError, Postponed, and the reason of the signal */
  async json<S extends z.ZodType>(
    place: string,
    schema: S,
    { method = 'GET', body, headers = {}, maxBytes = JSON_MAX }: GraphRequest = {},
  ): Promise<z.output<S>> {
    const content = typeof body === 'string' ? body : JSON.stringify(body);
    const answer = await this.#repeated(method === 'GET', async (token) => {
      const response = await this.#parts.fetch.fetch(this.url(place), {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          prefer: 'IdType="ImmutableId"',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: content }),
        accept: ['application/json'],
        maxBytes,
        keepFor: this.#parts.owner,
        signal: this.#parts.signal,
      });
      if (response.ok) return parsed(response);
      throw await failureOf(response, this.#parts.throttle);
    });
    const { data, error } = schema.safeParse(answer);
    if (error === undefined) return data;
    const [issue] = error.issues;
    throw invalidAnswer(`${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim());
  }

  /** The head of an answer whose body is read as it arrives. Redirects to files are followed without the token. */
  async open(place: string): Promise<OpenAnswer> {
    return this.#repeated(true, async (token) => {
      const answer = await this.#parts.files.open(this.url(place), {
        headers: { authorization: `Bearer ${token}`, prefer: 'IdType="ImmutableId"' },
        maxRedirects: 3,
        signal: this.#parts.signal,
      });
      if (answer.status >= 200 && answer.status < 300) return answer;
      answer.leave();
      const { status, headers } = answer;
      throw await failureOf(
        { status, headers, json: () => Promise.resolve(undefined) },
        this.#parts.throttle,
      );
    });
  }

  /** Sends a part of a file to the address of an upload session, which takes no token. Can be repeated. */
  async upload(url: string, part: Buffer, range: { first: number; total: number }): Promise<unknown> {
    const last = range.first + part.length - 1;
    return this.#repeated(true, async () => {
      const response = await this.#parts.files.fetch(url, {
        method: 'PUT',
        headers: { 'content-range': `bytes ${range.first}-${last}/${range.total}` },
        body: part,
        accept: ['application/json'],
        maxBytes: 1 << 20,
        signal: this.#parts.signal,
      });
      if (response.ok) return parsed(response);
      throw await failureOf(response, this.#parts.throttle);
    });
  }

  /** @param isSafe  what failed may be done again although it may have been done already */
  async #repeated<T>(isSafe: boolean, work: (token: string) => Promise<T>): Promise<T> {
    const { credentials, tokens, throttle, signal, pauseMs = 1000 } = this.#parts;
    let hasNewToken = false;
    for (let attempt = 1; ; attempt++) {
      await throttle.pass(signal);
      try {
        return await work(await tokens.get(credentials, signal));
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof GraphError && error.status === 401 && error.code !== 'AUTHENTICATION_FAILED') {
          tokens.forget(credentials);
          if (hasNewToken) throw new GraphError('AUTHENTICATION_FAILED', 'Microsoft Graph refuses the app.');
          hasNewToken = true;
          continue;
        }
        if (attempt >= ATTEMPTS || !mayPass(error, isSafe)) throw shown(error);
        await clock.sleep(Math.min(pauseMs * 2 ** (attempt - 1), LONGEST_PAUSE_MS), { signal });
      }
    }
  }
}

function mayPass(error: unknown, isSafe: boolean): boolean {
  if (error instanceof OutboundError) return isSafe && PASSING_FAILURES.has(error.reason);
  if (!(error instanceof GraphError)) return false;
  return isSafe
    ? error.status === 429 || PASSING_STATUSES.has(error.status)
    : UNPROCESSED_STATUSES.has(error.status);
}

const shown = (error: unknown): unknown =>
  error instanceof OutboundError
    ? new GraphError(`GRAPH_${error.reason.toUpperCase()}`, `Microsoft Graph: ${error.message}`)
    : error;

async function parsed(response: Response): Promise<unknown> {
  const text = await response.text();
  if (text === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw invalidAnswer('it is no JSON');
  }
}

async function failureOf(
  response: Pick<Response, 'status' | 'headers' | 'json'>,
  throttle: Throttle,
): Promise<GraphError> {
  const { status, headers } = response;
  const waitMs = retryAfterMs(headers.get('retry-after'));
  if (waitMs !== undefined && (status === 429 || PASSING_STATUSES.has(status))) await throttle.hold(waitMs);
  return graphFailure(status, await response.json().catch(() => undefined));
}

/** What an answer that is no success says. */
export function graphFailure(status: number, json: unknown): GraphError {
  const { code = '', message = '' } = Failure.safeParse(json).data?.error ?? {};
  const harmless = code.replace(/[^\w.-]/g, '').slice(0, 90) || `HTTP_${status}`;
  const sentence = message.replace(/\p{Cc}/gu, ' ').slice(0, 500);
  return new GraphError(harmless, `Microsoft Graph answered ${status}: ${sentence || harmless}`, { status });
}
