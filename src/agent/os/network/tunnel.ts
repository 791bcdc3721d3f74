import http from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContext } from 'node:tls';
import { clock } from '../../../clock.ts';
import { explainProxyFailure, explainProxyRefusal, NetworkError } from './network-error.ts';
import type { Proxy } from './proxy.ts';
import { checkServerIdentity } from './server-identity.ts';

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
 *
 * Nothing that the proxy answers is ever passed on as an answer of the server: a refusal is an error, and so are bytes
 * that come before the agent has spoken. Node's parser limits the size of the answer.
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

/** The name that the certificate of a host must be for. An address is compared as `host`. */
export const serverNameOf = (host: string) => (isIP(host) === 0 ? host : '');

interface Connected {
  status: number;
  socket: Duplex;
  /** How many bytes came with the answer. */
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
          // By default, Node would take the name of the certificate from the header `host`.
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
