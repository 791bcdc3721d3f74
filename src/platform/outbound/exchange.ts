import * as http from 'node:http';
import * as https from 'node:https';
import { isIP, type LookupFunction, type TcpNetConnectOpts } from 'node:net';
import { OutboundError } from './outbound-error.ts';
import { hostOf } from './target-url.ts';

/** One request and its answer, over a connection that leads to a permitted address only. */
export interface Exchange {
  url: URL;
  /** Those that were checked: a new connection is made to one of them. */
  addresses: readonly string[];
  /** Whether a connection to this address, which was made before, may still be used. */
  isPermitted: (address: string) => boolean;
  /** Keeps connections for later requests; a connection is closed after its request where this is absent. */
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

/** What the network said, for the log, beside what the caller may see. */
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

/** Answers each look-up with the addresses that were checked, so that a second answer of the DNS has no say. */
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
