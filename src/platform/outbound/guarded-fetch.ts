import type { IncomingMessage } from 'node:http';
import type { Logger } from '../logger.ts';
import { type AddressRules, addressClass, AddressPolicy } from './address-policy.ts';
import {
  Deadline,
  type TimeLimits,
  exchange,
  FailedExchange,
  KeptConnections,
  hostOf,
  targetUrl,
} from './exchange.ts';
import { OutboundError } from './outbound-error.ts';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';

/** Requests to URLs that a tenant supplied (docs/decisions/outbound.md). */

export interface GuardedFetchOptions {
  addresses: AddressRules;
  log: Logger;
  limits?: Partial<TimeLimits>;
  /** Characters of a URL; 2,048 when absent. */
  longestUrl?: number;
  /** For tests, whose servers and name servers are local. */
  testing?: { allowHttp?: boolean; ca?: string; nameServers?: readonly string[] };
}

export interface GuardedRequest {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  headers?: Readonly<Record<string, string>>;
  body?: string | Uint8Array;
  /**
   * Media types that the caller can read, such as `application/json`. A successful answer of another type is a failure;
   * another answer of another type comes without its body. Absent: the body of the answer is never read.
   */
  accept?: readonly string[];
  /** The most bytes of the body; 1 MiB by default. */
  maxBytes?: number;
  /** How many redirects a GET or HEAD follows; none when absent. Headers of the caller stay with the first origin. */
  maxRedirects?: number;
  /** Refuses a redirect to each URL for which it returns false. By default all that `fetch` may reach are followed. */
  mayRedirectTo?: (url: URL) => boolean;
  /**
   * The tenant for which the connection is made: it stays open for two seconds, for other requests with the same text.
   * Two tenants must never give the same. Absent: the connection is closed after the request.
   */
  keepFor?: string;
  signal?: AbortSignal;
}

/** An answer whose body is read as it arrives. */
export interface OpenAnswer {
  status: number;
  headers: Headers;
  /** Throws `OutboundError` if it does not arrive whole. Ends the connection when it is left before its end. */
  body: AsyncIterable<Buffer>;
  /** For a body that is not read at all. */
  leave(): void;
}

const KEEP_MS = 2000;
/** So many owners of connections are remembered; those of others close by themselves. */
const OWNERS_MAX = 200;
const LIMITS: TimeLimits = { connectMs: 5000, headersMs: 10_000, pieceMs: 10_000, totalMs: 15_000 };
const MAX_BYTES = 1 << 20;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const WITHOUT_BODY = new Set([204, 205, 304]);

export class GuardedFetch {
  readonly #options: GuardedFetchOptions;
  readonly #policy: AddressPolicy;
  readonly #limits: TimeLimits;
  /** By `keepFor`, the one used longest ago first. */
  readonly #kept = new Map<string, KeptConnections>();

  constructor(options: GuardedFetchOptions) {
    this.#options = options;
    this.#policy = new AddressPolicy(options.addresses);
    this.#limits = { ...LIMITS, ...options.limits };
  }

  /**
   * Sends one request and returns the answer with its whole body.
   * @throws OutboundError, of which everything may be shown to a tenant; the reason of `signal` when that ended it.
   */
  async fetch(text: string, request: GuardedRequest = {}): Promise<Response> {
    const deadline = new Deadline(this.#limits, request.signal);
    const visited: URL[] = [];
    try {
      return await this.#answer(await this.#follow(text, request, deadline, visited), request);
    } catch (error) {
      throw this.#failure(error, visited.at(-1), deadline.signal);
    } finally {
      deadline.end();
    }
  }

  /**
   * Sends one request and returns the head of the answer, with a body that is read as it arrives: for a file that is too
   * large for memory. Its media type is not looked at.
   * @throws OutboundError, as `fetch`
   */
  async open(text: string, request: Omit<GuardedRequest, 'accept' | 'maxBytes'> = {}): Promise<OpenAnswer> {
    const deadline = new Deadline(this.#limits, request.signal);
    const visited: URL[] = [];
    try {
      const message = await this.#follow(text, request, deadline, visited);
      const body = this.#pieces(message, deadline, visited.at(-1));
      return {
        status: message.statusCode ?? 0,
        headers: headersOf(message),
        body,
        leave() {
          message.destroy();
          deadline.end();
        },
      };
    } catch (error) {
      deadline.end();
      throw this.#failure(error, visited.at(-1), deadline.signal);
    }
  }

  async *#pieces(
    message: IncomingMessage,
    deadline: Deadline,
    url: URL | undefined,
  ): AsyncGenerator<Buffer, void, undefined> {
    try {
      // Here, because the head alone is enough for those who do not read the body.
      assertIdentity(message);
      deadline.awaitingPiece();
      for await (const piece of message as AsyncIterable<Buffer>) {
        // The reader's own work does not count in the time limit.
        deadline.readingBody();
        yield piece;
        deadline.awaitingPiece();
      }
    } catch (error) {
      throw this.#failure(error, url, deadline.signal);
    } finally {
      message.destroy();
      deadline.end();
    }
  }

  /** Follows redirects to the head of the answer that is none. `visited` gets each URL before it is used. */
  async #follow(
    text: string,
    request: GuardedRequest,
    deadline: Deadline,
    visited: URL[],
  ): Promise<IncomingMessage> {
    let url = this.#targetUrl(text);
    let headers = request.headers ?? {};
    for (let redirects = 0; ; redirects++) {
      visited.push(url);
      const message = await this.#send(url, { ...request, headers }, deadline);
      const next = REDIRECTS.has(message.statusCode ?? 0) ? message.headers.location : undefined;
      if (next === undefined) return message;
      message.destroy();
      if (redirects >= followed(request)) throw new OutboundError('redirected');
      const before: URL = url;
      url = this.#redirected(next, before);
      if (request.mayRedirectTo?.(url) === false) throw new OutboundError('redirected');
      if (url.origin !== before.origin) headers = {};
    }
  }

  /**
   * Checks a URL as `fetch` would, and sends nothing: for one that a browser is sent to, or that is stored for later.
   * @throws OutboundError
   */
  async assertPermitted(text: string): Promise<void> {
    const deadline = new Deadline(this.#limits, undefined);
    let url: URL | undefined;
    try {
      url = this.#targetUrl(text);
      deadline.connecting();
      await this.#addressesOf(url, deadline.signal);
    } catch (error) {
      throw this.#failure(error, url, deadline.signal);
    } finally {
      deadline.end();
    }
  }

  /** Throws if the host has no address, or one that may not be reached. */
  async #addressesOf(url: URL, signal: AbortSignal): Promise<string[]> {
    const { nameServers } = this.#options.testing ?? {};
    const addresses = await resolveHost(hostOf(url), { signal, servers: nameServers });
    signal.throwIfAborted();
    // One bad address among good ones is refused as well: a resolver or a connection might choose it.
    const refused = addresses.filter((address) => !this.#policy.permits(address));
    if (addresses.length === 0 || refused.length > 0) {
      throw new FailedExchange(
        new OutboundError('unreachable'),
        new Error(
          refused.length === 0 ? 'The name has no address.' : `${refused.join(', ')} may not be reached.`,
        ),
      );
    }
    return addresses;
  }

  async #send(url: URL, request: GuardedRequest, deadline: Deadline): Promise<IncomingMessage> {
    const { signal } = deadline;
    const { ca } = this.#options.testing ?? {};
    deadline.connecting();
    const addresses = await this.#addressesOf(url, signal);
    const send = (kept: KeptConnections | undefined) =>
      exchange({
        url,
        addresses,
        isPermitted: (address) => this.#policy.permits(address),
        kept,
        method: request.method ?? 'GET',
        headers: {
          'user-agent': 'Muster',
          ...(request.accept === undefined ? {} : { accept: request.accept.join(', ') }),
          ...request.headers,
          'accept-encoding': 'identity',
        },
        body: request.body,
        ca,
        signal,
        onConnected: () => deadline.awaitingHead(),
      });
    try {
      const message = await send(this.#keptFor(request.keepFor)).catch((error: unknown) => {
        if (error instanceof FailedExchange && error.isStale && !signal.aborted) return send(undefined);
        throw error;
      });
      deadline.readingBody();
      return message;
    } catch (error) {
      throw withoutHints(error, addresses);
    }
  }

  #keptFor(owner: string | undefined): KeptConnections | undefined {
    if (owner === undefined) return undefined;
    const kept = this.#kept.get(owner) ?? new KeptConnections(KEEP_MS);
    this.#kept.delete(owner);
    this.#kept.set(owner, kept);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > OWNERS_MAX && oldest !== undefined) this.#kept.delete(oldest);
    return kept;
  }

  #targetUrl(text: string, base?: URL): URL {
    const { longestUrl, testing } = this.#options;
    return targetUrl(text, base, {
      ...testing,
      ...(longestUrl === undefined ? {} : { longest: longestUrl }),
    });
  }

  #redirected(location: string, from: URL): URL {
    const url = this.#targetUrl(location, from);
    if (from.protocol === 'https:' && url.protocol !== 'https:') throw new OutboundError('redirected');
    return url;
  }

  async #answer(message: IncomingMessage, { method, accept, maxBytes }: GuardedRequest): Promise<Response> {
    const status = message.statusCode ?? 0;
    const isGood = status >= 200 && status < 300;
    const isReadable = accept?.includes(mediaType(message)) === true;
    try {
      const isEmpty = WITHOUT_BODY.has(status) || method === 'HEAD';
      if (accept !== undefined && !isReadable && isGood && !isEmpty) {
        throw new OutboundError('unexpected_type');
      }
      const body = isReadable && !isEmpty ? await readBody(message, maxBytes ?? MAX_BYTES) : null;
      return new Response(body, { status, headers: headersOf(message) });
    } finally {
      // One that was read to its end leaves its connection to the next request, if it is kept.
      if (!message.complete) message.destroy();
    }
  }

  /** Logs what happened and returns what the caller may know of it. */
  #failure(error: unknown, url: URL | undefined, signal: AbortSignal): unknown {
    const aborted: unknown = signal.aborted ? signal.reason : undefined;
    if (aborted !== undefined && !(aborted instanceof OutboundError)) return aborted;
    const shown = aborted ?? shownOf(error);
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    // The host only: the path of a webhook often is its secret.
    this.#options.log.warn({ host: url?.host, reason: shown.reason, err: cause }, 'outbound.failed');
    return shown;
  }
}

function followed({ method = 'GET', maxRedirects = 0 }: GuardedRequest): number {
  return method === 'GET' || method === 'HEAD' ? maxRedirects : 0;
}

/** Any other failure is that of an answer that Node or `Response` could not make sense of. */
function shownOf(error: unknown): OutboundError {
  if (error instanceof OutboundError) return error;
  return error instanceof FailedExchange ? error.shown : new OutboundError('invalid_response');
}

/** Inside of an allowed internal range, a closed port must look like one that speaks another protocol. */
function withoutHints(error: unknown, addresses: readonly string[]): unknown {
  if (!(error instanceof FailedExchange) || error.shown.reason !== 'insecure') return error;
  if (addresses.every((address) => addressClass(address) === 'public')) return error;
  return new FailedExchange(new OutboundError('unreachable'), error.cause);
}

function headersOf(message: IncomingMessage): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(message.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  return headers;
}

/**
 * The addresses of a host, by DNS alone; empty when there are none. Node's usual `dns.lookup` is avoided: it reads the
 * hosts file of the machine, and it holds a thread of the process for as long as the name server of a tenant takes.
 */
async function resolveHost(
  host: string,
  { signal, servers }: { signal: AbortSignal; servers?: readonly string[] | undefined },
): Promise<string[]> {
  if (isIP(host) !== 0) return [host];
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  if (servers !== undefined) resolver.setServers(servers);
  const cancel = () => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    signal.throwIfAborted();
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

/**
 * Reads the body of an answer up to a limit. Compressed answers are refused, although they were not asked for, so that
 * no small answer can grow large in memory.
 */
async function readBody(message: IncomingMessage, maxBytes: number): Promise<Buffer> {
  assertIdentity(message);
  if (Number(message.headers['content-length'] ?? 0) > maxBytes) throw new OutboundError('too_large');
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of message as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new OutboundError('too_large');
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** Throws if the body is compressed. */
function assertIdentity(message: IncomingMessage): void {
  const encoding = message.headers['content-encoding'];
  if (encoding === undefined || encoding.trim().toLowerCase() === 'identity') return;
  message.destroy();
  throw new OutboundError('invalid_response');
}

/** The media type without its parameters, such as `application/json`. */
function mediaType(message: IncomingMessage): string {
  return (message.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
}
