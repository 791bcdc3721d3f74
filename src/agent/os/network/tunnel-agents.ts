import http from 'node:http';
import https from 'node:https';
import type { Duplex } from 'node:stream';
import tls, { type SecureContext } from 'node:tls';
import { checkServerIdentity } from './server-identity.ts';
import { openTunnel, serverNameOf } from './tunnel.ts';
import type { Proxy } from './proxy.ts';

/** Agents for Node's HTTP client and for websockets whose connections go through a proxy by CONNECT. */

export interface TunnelParts {
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

/** The type requires a stream. Node reads none where there is an error. */
const failing = (done: Done | undefined) => (error: Error) => done?.(error, undefined as never);
