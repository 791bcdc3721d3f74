import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { GuardedFetch, GuardedRequest, OpenAnswer } from '../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import { shortened } from '../../protocol/index.ts';

/** A request to Microsoft Graph failed. Code and message may be shown to the tenant. */
export class GraphError extends Error {
  readonly code: string;
  /** 0 if there was no response. */
  readonly status: number;

  constructor(code: string, message: string, { status = 0 }: { status?: number } = {}) {
    super(message);
    this.name = 'GraphError';
    this.code = code;
    this.status = status;
  }
}

/** The provider requests a longer pause than a worker waits. */
export class Postponed extends Error {
  readonly delayMs: number;

  constructor(delayMs: number) {
    super('The provider asks for a pause.');
    this.name = 'Postponed';
    this.delayMs = delayMs;
  }
}

/** Errors that apply to all users, because the connection itself does not work. */
const OF_CONNECTION: ReadonlySet<string> = new Set(['AUTHENTICATION_FAILED', 'SECRET_UNAVAILABLE']);
export const isOfConnection = (error: unknown): boolean =>
  error instanceof GraphError && OF_CONNECTION.has(error.code);

export const invalidAnswer = (what: string) =>
  new GraphError('GRAPH_ANSWER_INVALID', `Microsoft Graph gave an answer that could not be used: ${what}.`);
/** What is wrong with it, in a few words. */
export const issueOf = ({ issues: [issue] }: z.ZodError): string =>
  `${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim();

/** The credentials of an app for a directory. */
export interface AppCredentials {
  tenantId: string;
  clientId: string;
  secret: string;
}

interface GraphPlaces {
  graphUrl: string;
  loginUrl: string;
}

const Granted = z.object({
  access_token: z.string().min(1).max(16_000),
  expires_in: z.coerce.number().min(1).max(1_000_000),
});
const Refused = z.object({ error: z.string().max(200) });

/** Tokens are renewed this long before they expire. */
const MARGIN_MS = 120_000;
const KEPT_MAX = 1000;

/** Access tokens of apps (client credentials), in memory only. */
export class AccessTokens {
  readonly #outbound: Pick<GuardedFetch, 'fetch'>;
  readonly #places: GraphPlaces;
  /** By credentials; the oldest first. */
  readonly #kept = new Map<string, { token: string; until: number }>();

  constructor(outbound: Pick<GuardedFetch, 'fetch'>, places: GraphPlaces) {
    this.#outbound = outbound;
    this.#places = places;
  }

  /** @throws GraphError, OutboundError */
  async get(credentials: AppCredentials, signal: AbortSignal | undefined): Promise<string> {
    const key = keyOf(credentials);
    const kept = this.#kept.get(key);
    if (kept !== undefined && kept.until > clock.now()) return kept.token;
    const { tenantId, clientId, secret } = credentials;
    const answer = await this.#outbound.fetch(`${this.#places.loginUrl}/${tenantId}/oauth2/v2.0/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: clientId,
        client_secret: secret,
        scope: `${new URL(this.#places.graphUrl).origin}/.default`,
      }).toString(),
      accept: ['application/json'],
      maxBytes: 65_536,
      ...(signal === undefined ? {} : { signal }),
    });
    const json: unknown = await answer.json().catch(() => undefined);
    if (!answer.ok) throw refusal(answer.status, json);
    const { data } = Granted.safeParse(json);
    if (data === undefined) {
      throw new GraphError('AUTHENTICATION_FAILED', 'The sign-in at Microsoft gave no access token.');
    }
    this.#keep(key, data.access_token, data.expires_in * 1000 - MARGIN_MS);
    return data.access_token;
  }

  forget(credentials: AppCredentials): void {
    this.#kept.delete(keyOf(credentials));
  }

  #keep(key: string, token: string, ms: number): void {
    if (ms <= 0) return;
    this.#kept.set(key, { token, until: clock.now() + ms });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT_MAX && oldest !== undefined) this.#kept.delete(oldest);
  }
}

const keyOf = ({ tenantId, clientId, secret }: AppCredentials) =>
  JSON.stringify([tenantId, clientId, secret]);

function refusal(status: number, json: unknown): GraphError {
  if (status === 429 || status >= 500) {
    return new GraphError('GRAPH_UNAVAILABLE', 'The sign-in at Microsoft is not available.', { status });
  }
  const reason = Refused.safeParse(json).data?.error.replace(/[^\w.-]/g, '') ?? 'no reason';
  return new GraphError(
    'AUTHENTICATION_FAILED',
    `Microsoft refuses the sign-in of the app (${reason}). Check the tenant, the client id and the secret.`,
    { status },
  );
}

/** The longest pause that a response can cause. */
const LONGEST_MS = 3_600_000;

/**
 * The requested pause of a connection, which applies to all of its requests. Other servers learn of it through `hold`,
 * which stores it, and through `until` of the connection when they begin to use it.
 */
export class Throttle {
  readonly #patienceMs: number;
  readonly #store: (until: Date) => Promise<void>;
  #until = 0;

  constructor(options: { patienceMs: number; until: Date | null; store: (until: Date) => Promise<void> }) {
    this.#patienceMs = options.patienceMs;
    this.#store = options.store;
    this.applyRetryAfter(options.until);
  }

  /** Applies the pause that another server has received. */
  applyRetryAfter(until: Date | null): void {
    const at = until?.getTime() ?? 0;
    this.#until = Math.max(this.#until, Math.min(at, clock.now() + LONGEST_MS));
  }

  async hold(ms: number): Promise<void> {
    const until = clock.now() + Math.min(Math.max(ms, 0), LONGEST_MS);
    if (until <= this.#until) return;
    this.#until = until;
    await this.#store(new Date(until));
  }

  /** @throws Postponed  if the wait would be too long; or the reason of the signal */
  async pass(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const waitMs = this.#until - clock.now();
      if (waitMs <= 0) return;
      if (waitMs > this.#patienceMs) throw new Postponed(waitMs);
      await clock.sleep(waitMs, { signal });
    }
  }
}

/** Parses `Retry-After`, in seconds or as a date. */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d{1,9}(\.\d{1,3})?$/.test(header.trim())) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(at - clock.now(), 0);
}

/** The largest JSON response: a page of contacts with long notes is smaller. */
const JSON_MAX = 16 << 20;
const ATTEMPTS = 6;
const LONGEST_PAUSE_MS = 30_000;
const PASSING_STATUSES: ReadonlySet<number> = new Set([500, 502, 503, 504]);
const UNPROCESSED_STATUSES: ReadonlySet<number> = new Set([429, 503]);
const PASSING_FAILURES: ReadonlySet<string> = new Set(['unreachable', 'timed_out', 'invalid_response']);

interface Parts {
  /** For responses that are read into memory. */
  fetch: Pick<GuardedFetch, 'fetch'>;
  /** For files, which are streamed. */
  files: Pick<GuardedFetch, 'open' | 'fetch'>;
  graphUrl: string;
  tokens: AccessTokens;
  credentials: AppCredentials;
  throttle: Throttle;
  /** Connections are kept alive for requests of this connection only. */
  owner: string;
  signal: AbortSignal;
  /** The first pause after a failure; it doubles. */
  pauseMs?: number;
}

export interface GraphRequest {
  method?: GuardedRequest['method'];
  /** A JSON value; text is sent as it is. */
  body?: unknown;
  headers?: Readonly<Record<string, string>>;
  maxBytes?: number;
}

/** SharePoint, to which files are sent, wraps its sentence; gateways before Graph send nothing but one. */
const Sentence = z.union([z.string(), z.object({ value: z.string() }).transform(({ value }) => value)]);
const Fault = z.union([
  z.object({ code: z.string().catch(''), message: Sentence.catch('') }),
  z.string().transform((message) => ({ code: '', message })),
]);
const Failure = z.union([
  z.object({ error: Fault }).transform(({ error }) => error),
  z.object({ 'odata.error': Fault }).transform((answer) => answer['odata.error']),
]);

/** Microsoft Graph with one app in one directory. It respects throttling and retries temporary failures. */
export class GraphClient {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get signal(): AbortSignal {
    return this.#parts.signal;
  }

  /** A URL below that of Graph. Other hosts in responses are refused, because they would get the access token. */
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
    throw invalidAnswer(issueOf(error));
  }

  /** The head of a response whose body is streamed. Redirects to files are followed without the token. */
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

  /** Sends a part of a file to the URL of an upload session, which needs no token. Can be repeated. */
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

  /** @param isSafe  a failed request may be repeated even if it may have taken effect */
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

/** The error in an unsuccessful response. */
export function graphFailure(status: number, json: unknown): GraphError {
  const { code = '', message = '' } = Failure.safeParse(json).data ?? {};
  const harmless = code.replace(/[^\w.-]/g, '').slice(0, 90) || `HTTP_${status}`;
  const sentence = shortened(message.replace(/\p{Cc}/gu, ' '), 500);
  return new GraphError(harmless, `Microsoft Graph answered ${status}: ${sentence || harmless}`, { status });
}

/** The limit of Graph. */
export const BATCH_MAX = 20;
const ANSWER_MAX = 16 << 20;

const Answers = z.object({
  responses: z.array(z.object({ id: z.string(), status: z.number(), body: z.unknown() })).max(1000),
});

/**
 * Reads several small texts by one request. What is left out of the answer was not had: throttled, too large, gone or not
 * clear. The caller asks for each of those by itself, and hears then what is wrong.
 */
export async function batchedTexts(
  graph: GraphClient,
  places: ReadonlyMap<string, string>,
): Promise<Map<string, Buffer>> {
  const ids = [...places.keys()];
  const requests = [...places.values()].map((url, index) => ({
    id: String(index),
    method: 'GET',
    url,
    headers: { Prefer: 'IdType="ImmutableId"' },
  }));
  const found = new Map<string, Buffer>();
  const answers = await graph
    .json('/$batch', Answers, { method: 'POST', body: { requests }, maxBytes: ANSWER_MAX })
    .catch((error: unknown) => {
      if (error instanceof GraphError && error.code !== 'AUTHENTICATION_FAILED') return { responses: [] };
      throw error;
    });
  for (const { id, status, body } of answers.responses) {
    const name = ids[Number(id)];
    const content = status === 200 && typeof body === 'string' ? decoded(body) : undefined;
    if (name !== undefined && content !== undefined) found.set(name, content);
  }
  return found;
}

/**
 * A body that is no JSON comes in base64. A message always has a colon, which base64 has not; a text that came as it is
 * may have lost bytes on its way through JSON, unless it is ASCII.
 */
function decoded(body: string): Buffer | undefined {
  if (/^[\w+/=\s-]*$/.test(body)) return Buffer.from(body, 'base64');
  // oxlint-disable-next-line no-control-regex -- ASCII is what is looked for
  return /^[\x00-\x7f]*$/.test(body) ? Buffer.from(body) : undefined;
}
