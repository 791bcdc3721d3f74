import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import http, { createServer, type IncomingMessage } from 'node:http';
import https from 'node:https';
import { isIP, type AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import tls, { type SecureContext } from 'node:tls';
import { clock } from '../../../clock.ts';
import {
  explainProxyFailure,
  explainProxyRefusal,
  NetworkError,
  type Proxy,
  checkServerIdentity,
} from './proxy-rules.ts';

export interface TunnelRelay {
  /** The address of the relay as a proxy, with a password that is valid only while it runs. */
  address: string;
  close(): void;
}

/** Opens a connection to a host, over the route of this machine. */
type OpenConnection = (host: string, port: number) => Promise<Duplex>;

const PASSWORD_BYTES = 24;

/**
 * A local proxy for a program that the agent starts: the program uses the agent's route, and does not get the password
 * of the proxy behind it, which would be visible in its environment.
 */
export async function startTunnelRelay(openConnection: OpenConnection): Promise<TunnelRelay> {
  const password = randomBytes(PASSWORD_BYTES).toString('hex');
  const expected = Buffer.from(`Basic ${Buffer.from(`relay:${password}`).toString('base64')}`);
  const sockets = new Set<Duplex>();
  const keep = (socket: Duplex, other: Duplex) => {
    sockets.add(socket);
    socket.on('error', () => other.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  const server = createServer((_request, response) => {
    response.writeHead(405).end();
  });
  server.on('connect', (request: IncomingMessage, near: Duplex, early: Buffer) => {
    near.on('error', () => near.destroy());
    const target = URL.parse(`https://${request.url ?? ''}`);
    if (target === null || !isEqual(request.headers['proxy-authorization'], expected)) {
      near.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      return;
    }
    const host = target.hostname.replace(/^\[|\]$/g, '');
    openConnection(host, Number(target.port) || 443).then(
      (far) => {
        keep(near, far);
        keep(far, near);
        near.write('HTTP/1.1 200 Connection established\r\n\r\n');
        far.write(early);
        near.pipe(far).pipe(near);
      },
      () => near.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  server.unref();
  return {
    address: `http://relay:${password}@127.0.0.1:${portOf(server.address())}`,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function isEqual(given: string | undefined, expected: Buffer): boolean {
  const bytes = Buffer.from(given ?? '');
  return bytes.length === expected.length && timingSafeEqual(bytes, expected);
}

function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === 'string') throw new Error('The relay has no port.');
  return address.port;
}

/** Agents for Node's HTTP client and for websockets whose connections go through a proxy by CONNECT. */

interface TunnelParts {
  proxy: Proxy;
  context: () => SecureContext;
  timeoutMs: number;
  signal: AbortSignal;
}

type Done = (error: Error | null, stream: Duplex) => void;

/** For http and ws: the connection through the proxy as it is. */
export class PlainTunnelAgent extends http.Agent {
  readonly #parts: TunnelParts;

  constructor(parts: TunnelParts, options: http.AgentOptions) {
    super(options);
    this.#parts = parts;
  }

  override createConnection({ host, port }: http.ClientRequestArgs, done?: Done): undefined {
    openTunnel({ ...this.#parts, host: host ?? '', port: Number(port) }).then(
      (socket) => done?.(null, socket),
      failing(done),
    );
  }
}

/** For https and wss: TLS with the server within the connection through the proxy. */
export class TlsTunnelAgent extends https.Agent {
  readonly #parts: TunnelParts;

  constructor(parts: TunnelParts, options: http.AgentOptions) {
    super(options);
    this.#parts = parts;
  }

  override createConnection({ host, port }: https.RequestOptions, done?: Done): undefined {
    const name = host ?? '';
    const { context } = this.#parts;
    openTunnel({ ...this.#parts, host: name, port: Number(port) })
      .then((socket) =>
        tls.connect({
          socket,
          host: name,
          servername: serverNameOf(name),
          secureContext: context(),
          checkServerIdentity,
          ALPNProtocols: ['http/1.1'],
        }),
      )
      .then((socket) => done?.(null, socket), failing(done));
  }
}

/** The type requires a stream. Node ignores it if there is an error. */
const failing = (done: Done | undefined) => (error: Error) => done?.(error, undefined as never);

export interface TunnelOptions {
  proxy: Proxy;
  host: string;
  port: number;
  /** For a proxy that is itself reached by TLS. */
  context: () => SecureContext;
  timeoutMs: number;
  signal: AbortSignal;
}

/**
 * Opens a connection through a proxy by CONNECT (RFC 9110, 9.3.6). Rejects with `NetworkError`.
 * A response of the proxy is never taken for one of the server: a refusal is an error, and so are bytes that arrive
 * before the agent has sent any. Node's parser limits the size of the response.
 */
export async function openTunnel(options: TunnelOptions): Promise<Duplex> {
  const { proxy, host, port, timeoutMs } = options;
  const target = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  let isLate = false;
  const attempt = new AbortController();
  const end = () => attempt.abort();
  const timer = clock.setTimeout(() => {
    isLate = true;
    end();
  }, timeoutMs);
  options.signal.addEventListener('abort', end);
  if (options.signal.aborted) end();
  try {
    const { status, socket, early } = await connectRequest(options, target, attempt.signal);
    const isOpen = status >= 200 && status <= 299;
    if (isOpen && early === 0) return socket;
    socket.destroy();
    if (!isOpen) throw explainProxyRefusal(status, proxy, target);
    const message = `The proxy ${proxy.address} sent data before the server could.`;
    throw new NetworkError('PROXY_INVALID', message);
  } catch (error) {
    if (!isLate) throw explainProxyFailure(error, proxy);
    const message = `The proxy ${proxy.address} (from ${proxy.source}) did not answer within ${timeoutMs / 1000} s.`;
    throw new NetworkError('PROXY_TIMEOUT', message, error);
  } finally {
    clock.clear(timer);
    options.signal.removeEventListener('abort', end);
  }
}

/** The name that the certificate of a host must match. An address is compared as `host`. */
export const serverNameOf = (host: string) => (isIP(host) === 0 ? host : '');

interface Connected {
  status: number;
  socket: Duplex;
  /** How many bytes came with the response. */
  early: number;
}

async function connectRequest(
  { proxy, context }: TunnelOptions,
  target: string,
  signal: AbortSignal,
): Promise<Connected> {
  return new Promise((resolve, reject) => {
    const about = {
      host: proxy.host,
      port: proxy.port,
      method: 'CONNECT',
      path: target,
      headers: { host: target, ...proxy.headers() },
      agent: false,
      signal,
    } as const;
    const request = proxy.isEncrypted
      ? https.request({
          ...about,
          agent: new https.Agent({ secureContext: context(), checkServerIdentity }),
          // By default, Node would take the expected name of the certificate from the header `host`.
          servername: serverNameOf(proxy.host),
        })
      : http.request(about);
    request.once('connect', ({ statusCode = 0 }, socket, head) =>
      resolve({ status: statusCode, socket, early: head.length }),
    );
    request.on('error', reject);
    request.end();
  });
}
