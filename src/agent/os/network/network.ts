import http from 'node:http';
import https from 'node:https';
import type { Readable } from 'node:stream';
import type { Authorities } from './authorities.ts';
import { explainFailure, explainProxyFailure, explainProxyRefusal, NetworkError } from './network-error.ts';
import type { Proxy } from './proxy.ts';
import type { ProxyRules } from './proxy-rules.ts';
import { checkServerIdentity } from './server-identity.ts';
import { openTunnel, serverNameOf } from './tunnel.ts';
import { startTunnelRelay, type TunnelRelay } from './tunnel-relay.ts';
import { PlainTunnelAgent, TlsTunnelAgent } from './tunnel-agents.ts';

export interface NetworkRequest {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT';
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** Aborts the request and the body of the answer. */
  signal?: AbortSignal;
  /** How long the connection may be silent (default 30 s), also in the middle of the body. */
  silentMs?: number;
}

export interface NetworkAnswer {
  status: number;
  headers: http.IncomingHttpHeaders;
  /** Must be read to its end or destroyed. */
  body: Readable;
}

/** Which way the agent takes, for people. Holds no password. */
export interface NetworkDescription {
  /** `null` for a direct connection. */
  proxy: { address: string; source: string; hasPassword: boolean } | null;
  /** The PEM file of the authorities that count beside those of the system. */
  caFile: string | null;
}

export interface NetworkOptions {
  rules: ProxyRules;
  authorities: Authorities;
  /** How long a proxy may take to open a connection (default 15 s). */
  connectMs?: number;
}

const CONNECT_MS = 15_000;
const SILENT_MS = 30_000;
/** Less than servers and proxies usually keep a connection that nobody uses. */
const IDLE_MS = 4000;

/**
 * The way of this machine to servers: through the configured proxy, with the configured authorities. Every connection of
 * the agent and of the watchdog is made here, and there is no way to switch the verification of certificates off.
 */
export class Network {
  readonly #options: NetworkOptions;
  readonly #agents = new Map<string, http.Agent>();
  readonly #closing = new AbortController();

  constructor(options: NetworkOptions) {
    this.#options = options;
  }

  /** Sends one request and follows no redirect. Rejects with `NetworkError` where nothing answered for the server. */
  async request(url: URL, options: NetworkRequest = {}): Promise<NetworkAnswer> {
    const proxy = this.#options.rules.proxyFor(url);
    // A plain request is addressed to the proxy itself (RFC 9112, 3.2.2).
    const relay = url.protocol === 'http:' ? proxy : undefined;
    try {
      const answer = await this.#send(url, relay, options);
      if (relay === undefined || answer.statusCode !== 407) return received(answer);
      answer.destroy();
      throw explainProxyRefusal(407, relay, url.host);
    } catch (error) {
      throw relay === undefined ? explainFailure(error, url.host, proxy) : explainProxyFailure(error, relay);
    }
  }

  /** The agent of Node for a websocket to `url`. */
  socketAgent(url: URL): http.Agent {
    return this.#agentFor(url, this.#options.rules.proxyFor(url), false);
  }

  describe(url: URL): NetworkDescription {
    const proxy = this.#options.rules.proxyFor(url);
    return {
      proxy:
        proxy === undefined
          ? null
          : { address: proxy.address, source: proxy.source, hasPassword: proxy.hasPassword },
      caFile: this.#options.authorities.file ?? null,
    };
  }

  /** Explains an error of a socket of `socketAgent`. */
  explain(error: Error, url: URL): NetworkError {
    return explainFailure(error, url.host, this.#options.rules.proxyFor(url));
  }

  /** A proxy on this machine that takes the way to `url`, for a program that the agent starts. */
  async relay(url: URL): Promise<TunnelRelay> {
    const proxy = this.#options.rules.proxyFor(url);
    const { authorities, connectMs: timeoutMs = CONNECT_MS } = this.#options;
    const parts = { context: () => authorities.context(), timeoutMs, signal: this.#closing.signal };
    return startTunnelRelay(async (host, port) => {
      if (proxy === undefined) throw new Error('There is no proxy for this address.');
      return openTunnel({ ...parts, proxy, host, port });
    });
  }

  /** The certificates of all authorities that count. */
  authorities(): readonly string[] {
    return this.#options.authorities.certificates();
  }

  /** Ends all connections, so that nothing keeps the process alive. */
  close(): void {
    this.#closing.abort();
    for (const agent of this.#agents.values()) agent.destroy();
  }

  async #send(
    url: URL,
    relay: Proxy | undefined,
    { method = 'GET', headers = {}, body, signal, silentMs = SILENT_MS }: NetworkRequest,
  ): Promise<http.IncomingMessage> {
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const about: https.RequestOptions = {
      method,
      headers: { ...headers, ...length, ...relay?.headers(), host: url.host },
      ...(signal === undefined ? {} : { signal }),
    };
    return new Promise((resolve, reject) => {
      const request =
        relay === undefined
          ? this.#requestTo(url, about)
          : this.#requestTo(new URL(relay.address), {
              ...about,
              path: url.href,
              servername: serverNameOf(relay.host),
            });
      request.setTimeout(silentMs, () =>
        request.destroy(
          new NetworkError('TIMEOUT', `${url.host} did not answer within ${silentMs / 1000} s.`),
        ),
      );
      // Node ends a request without a socket only when it gets one, and a proxy may take its time.
      const abort = () => reject(new NetworkError('ABORTED', 'The request was aborted.'));
      request.once('close', () => signal?.removeEventListener('abort', abort));
      signal?.addEventListener('abort', abort);
      if (signal?.aborted === true) abort();
      request.once('response', resolve);
      request.on('error', reject);
      request.end(body);
    });
  }

  #requestTo(url: URL, about: https.RequestOptions): http.ClientRequest {
    const isRelay = about.path !== undefined;
    const agent = this.#agentFor(url, isRelay ? undefined : this.#options.rules.proxyFor(url), true);
    return (url.protocol === 'https:' ? https : http).request(url, { ...about, agent });
  }

  #agentFor(url: URL, proxy: Proxy | undefined, isKept: boolean): http.Agent {
    const isEncrypted = /^(https|wss):$/.test(url.protocol);
    const key = [isEncrypted, isKept, proxy?.address].join(' ');
    let agent = this.#agents.get(key);
    if (agent === undefined) {
      agent = this.#newAgent(isEncrypted, proxy, isKept ? { keepAlive: true, timeout: IDLE_MS } : {});
      this.#agents.set(key, agent);
    }
    return agent;
  }

  #newAgent(isEncrypted: boolean, proxy: Proxy | undefined, options: http.AgentOptions): http.Agent {
    const { authorities, connectMs = CONNECT_MS } = this.#options;
    const context = () => authorities.context();
    if (proxy !== undefined) {
      const parts = { proxy, context, timeoutMs: connectMs, signal: this.#closing.signal };
      return isEncrypted ? new TlsTunnelAgent(parts, options) : new PlainTunnelAgent(parts, options);
    }
    if (!isEncrypted) return new http.Agent(options);
    return new https.Agent({ ...options, secureContext: context(), checkServerIdentity });
  }
}

const received = (answer: http.IncomingMessage): NetworkAnswer => ({
  status: answer.statusCode ?? 0,
  headers: answer.headers,
  body: answer,
});
