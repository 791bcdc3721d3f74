import * as http from 'node:http';
import * as https from 'node:https';
import { isIP, type LookupFunction, type TcpNetConnectOpts } from 'node:net';
import { OutboundError } from './outbound-error.ts';
import { clock, type Timer } from '../../clock.ts';

const LONGEST_URL = 2048;

/** Ports above 1023 that browsers refuse as well (the Fetch standard's "bad ports"): other protocols live there. */
const BAD_PORTS = new Set([
  1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
  10080,
]);

/**
 * Checks what the text of a URL alone can show: scheme, port, credentials. Numbers that stand for an IPv4 address in
 * decimal, octal or hexadecimal form come out as its usual form, because the WHATWG parser writes them so.
 */
export function targetUrl(
  text: string,
  base?: URL,
  { allowHttp = false, longest = LONGEST_URL }: { allowHttp?: boolean; longest?: number } = {},
): URL {
  const url = URL.canParse(text, base?.href) ? new URL(text, base?.href) : undefined;
  if (url === undefined || url.href.length > longest) throw new OutboundError('url_refused');
  const isScheme = url.protocol === 'https:' || (allowHttp && url.protocol === 'http:');
  const hasCredentials = url.username !== '' || url.password !== '';
  if (!isScheme || hasCredentials || url.hostname === '' || !isPort(url.port)) {
    throw new OutboundError('url_refused');
  }
  url.hash = '';
  return url;
}

/** The port as `URL` has it: empty if it is the scheme's own. */
function isPort(text: string): boolean {
  const port = Number(text);
  return text === '' || port === 443 || (port >= 1024 && !BAD_PORTS.has(port));
}

/** The host without the brackets of an IPv6 address. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[(.*)\]$/, '$1');

export interface TimeLimits {
  /** Until a name is resolved and a secured connection stands. */
  connectMs: number;
  /** From there until the head of the answer is read. */
  headersMs: number;
  /** Between two pieces of a body that is read as it arrives. */
  pieceMs: number;
  /** For the whole call with all its redirects. */
  totalMs: number;
}

/** The time limits of one call: `signal` is aborted with the failure that the caller sees. */
export class Deadline {
  readonly #limits: TimeLimits;
  readonly #controller = new AbortController();
  readonly #whole: Timer;
  readonly #caller: AbortSignal | undefined;
  readonly #onAbort = () => this.#controller.abort(this.#caller?.reason);
  #phase: Timer | undefined;

  constructor(limits: TimeLimits, caller: AbortSignal | undefined) {
    this.#limits = limits;
    this.#caller = caller;
    this.#whole = this.#abortAfter(limits.totalMs, 'timed_out');
    if (caller?.aborted === true) this.#onAbort();
    caller?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  connecting(): void {
    this.#begin(this.#limits.connectMs, 'unreachable');
  }

  awaitingHead(): void {
    this.#begin(this.#limits.headersMs, 'timed_out');
  }

  awaitingPiece(): void {
    this.#begin(this.#limits.pieceMs, 'timed_out');
  }

  readingBody(): void {
    clock.clear(this.#phase);
  }

  end(): void {
    clock.clear(this.#whole);
    clock.clear(this.#phase);
    this.#caller?.removeEventListener('abort', this.#onAbort);
  }

  #begin(ms: number, reason: 'unreachable' | 'timed_out'): void {
    clock.clear(this.#phase);
    this.#phase = this.#abortAfter(ms, reason);
  }

  #abortAfter(ms: number, reason: 'unreachable' | 'timed_out'): Timer {
    return clock.setTimeout(() => this.#controller.abort(new OutboundError(reason)), ms);
  }
}

/** One request and its answer, over a connection that leads to a permitted address only. */
export interface Exchange {
  url: URL;
  /** The addresses that were checked: a new connection is made to one of them. */
  addresses: readonly string[];
  /** Whether a connection to this address, which was made before, may still be used. */
  isPermitted: (address: string) => boolean;
  /** Keeps connections for later requests; a connection is closed after its request if this is absent. */
  kept: KeptConnections | undefined;
  method: string;
  headers: Readonly<Record<string, string>>;
  body: string | Uint8Array | undefined;
  ca: string | undefined;
  signal: AbortSignal;
  /** The connection is secured, and the answer is awaited from now on. */
  onConnected: () => void;
}

/** Connections that stay open for a moment, for the requests of one owner only. */
export class KeptConnections {
  readonly http: http.Agent;
  readonly https: https.Agent;

  constructor(idleMs: number) {
    const options = { keepAlive: true, timeout: idleMs, maxFreeSockets: 8 };
    this.http = new http.Agent(options);
    this.https = new https.Agent(options);
  }
}

/** Resolves with the head of the answer; its body has not been read. */
export function exchange(call: Exchange): Promise<http.IncomingMessage> {
  const { url, addresses, method, body, signal } = call;
  const isSecure = url.protocol === 'https:';
  // Never Node's own agent: no connection is shared between tenants, and no proxy of the environment is used.
  const agent =
    (isSecure ? call.kept?.https : call.kept?.http) ??
    (isSecure ? new https.Agent({ maxCachedSessions: 0 }) : new http.Agent());
  const options: https.RequestOptions & Pick<TcpNetConnectOpts, 'autoSelectFamily'> = {
    agent,
    method,
    protocol: url.protocol,
    hostname: hostOf(url),
    port: url.port === '' ? (isSecure ? 443 : 80) : Number(url.port),
    path: `${url.pathname}${url.search}`,
    headers: {
      ...call.headers,
      ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
    },
    signal,
    lookup: pinnedTo(addresses),
    autoSelectFamily: true,
    // Said here because the environment (NODE_TLS_REJECT_UNAUTHORIZED, NODE_OPTIONS) could say otherwise.
    rejectUnauthorized: true,
    minVersion: 'TLSv1.2',
    insecureHTTPParser: false,
    maxHeaderSize: 16 * 1024,
    ...(call.ca === undefined ? {} : { ca: call.ca }),
  };
  return new Promise((resolve, reject) => {
    let failure: OutboundError = new OutboundError('unreachable');
    const request = isSecure ? https.request(options) : http.request(options);
    request.once('socket', (socket) => {
      if (request.reusedSocket) {
        if (!call.isPermitted(socket.remoteAddress ?? '')) request.destroy();
        failure = new OutboundError('invalid_response');
        call.onConnected();
        return;
      }
      socket.once('connect', () => {
        // Never expected: the connection is made to one of the addresses that `lookup` gives.
        if (!addresses.some((address) => isSame(address, socket.remoteAddress))) request.destroy();
        else if (isSecure) failure = new OutboundError('insecure');
      });
      socket.once(isSecure ? 'secureConnect' : 'connect', () => {
        failure = new OutboundError('invalid_response');
        call.onConnected();
      });
    });
    // Stays for as long as the request lives: an error without a listener would end the process.
    request.on('error', (error) =>
      reject(new FailedExchange(failure, error, request.reusedSocket && isReset(error))),
    );
    // Node closes a request without an error when the answer switches to another protocol.
    request.once('close', () => reject(new FailedExchange(failure, new Error('The connection was closed.'))));
    request.once('response', resolve);
    request.end(body);
  });
}

/** The error of the network, for the log, beside what the caller may see. */
export class FailedExchange extends Error {
  readonly shown: OutboundError;
  /** The connection was kept from an earlier request, and the other side has closed it without an answer to this one. */
  readonly isStale: boolean;

  constructor(shown: OutboundError, cause: unknown, isStale = false) {
    super('The exchange failed.', { cause });
    this.shown = shown;
    this.isStale = isStale;
  }
}

const isReset = (error: NodeJS.ErrnoException): boolean =>
  error.code === 'ECONNRESET' || error.code === 'EPIPE';

/** Answers each look-up with the addresses that were checked, so that a second answer of the DNS cannot change them. */
function pinnedTo(addresses: readonly string[]): LookupFunction {
  const answers = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, { all }, done) => {
    const [first] = answers;
    if (first === undefined) return done(new Error('There is no address.'), []);
    return all === true ? done(null, answers) : done(null, first.address, first.family);
  };
}

/** Compares two spellings of an address, of which one may be mapped into IPv6. */
function isSame(expected: string, actual: string | undefined): boolean {
  return actual !== undefined && canonical(expected) === canonical(actual);
}

const canonical = (address: string): string =>
  isIP(address) === 6 ? new URL(`http://[${address}]`).hostname : `[${mappedForm(address)}]`;

const mappedForm = (ipv4: string): string => new URL(`http://[::ffff:${ipv4}]`).hostname.slice(1, -1);
