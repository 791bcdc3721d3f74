import { X509Certificate } from 'node:crypto';
import { open } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import type { Readable } from 'node:stream';
import tls from 'node:tls';
import { z } from 'zod';
import {
  explainFailure,
  explainProxyFailure,
  explainProxyRefusal,
  NetworkError,
  type Proxy,
  checkServerIdentity,
  ProxyRules,
} from './proxy-rules.ts';
import {
  openTunnel,
  serverNameOf,
  PlainTunnelAgent,
  TlsTunnelAgent,
  startTunnelRelay,
  type TunnelRelay,
} from './tunnel.ts';
import { isIPv4 } from 'node:net';
import path from 'node:path';
import { readPrivateJson, replaceFile, writePrivateJson } from '../files/private-file.ts';

/** The certificate authorities that the agent trusts: those of the system, and those of the administrator's file. */
interface Authorities {
  /** The additional file; `undefined` if only the authorities of the system are trusted. */
  file: string | undefined;
  /**
   * For every TLS connection. It is built once, at the first connection, because reading the system's store takes up
   * to 0.3 s.
   */
  context(): tls.SecureContext;
  /** The certificates of all authorities. */
  certificates(): string[];
}

const FILE_MAX_BYTES = 1024 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z\d+/=\s]+-----END CERTIFICATE-----/g;

export function systemAuthorities(): Authorities {
  return authorities(undefined, []);
}

/** Reads the certificates of a PEM file. Throws if it contains no usable certificate. */
export async function authoritiesWith(file: string, source: string): Promise<Authorities> {
  return authorities(file, await readCertificates(file, source));
}

/** The certificates of a PEM file, without its other content. */
async function readCertificates(file: string, source: string): Promise<string[]> {
  return certificatesIn(await textOf(file, source), file, source);
}

function authorities(file: string | undefined, added: string[]): Authorities {
  let context: tls.SecureContext | undefined;
  const create = () => {
    const system = trustedBySystem();
    if (system !== undefined) return tls.createSecureContext({ ca: [...system, ...added] });
    // Without a list, Node uses its own one, and the file of NODE_EXTRA_CA_CERTS.
    return tls.createSecureContext(added.length === 0 ? {} : { ca: [...tls.rootCertificates, ...added] });
  };
  return {
    file,
    context: () => (context ??= create()),
    certificates: () => [...(trustedBySystem() ?? tls.rootCertificates), ...added],
  };
}

async function textOf(file: string, source: string): Promise<string> {
  try {
    const handle = await open(file, 'r');
    try {
      const found = await handle.stat();
      if (!found.isFile()) throw new Error('it is not a regular file');
      if (found.size > FILE_MAX_BYTES) throw new Error(`it is larger than ${FILE_MAX_BYTES} bytes`);
      return await handle.readFile('latin1');
    } finally {
      await handle.close();
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`The file of certificates in ${source} cannot be read: ${file}: ${reason}.`, {
      cause: error,
    });
  }
}

function certificatesIn(text: string, file: string, source: string): string[] {
  const found = text.match(CERTIFICATE) ?? [];
  if (found.length === 0) {
    throw new Error(
      `The file of certificates in ${source} holds no certificate: ${file}. It must be a PEM file, with lines such as -----BEGIN CERTIFICATE-----.`,
    );
  }
  for (const [index, pem] of found.entries()) {
    try {
      void new X509Certificate(pem);
    } catch (error) {
      throw new Error(
        `Certificate ${index + 1} of the file in ${source} cannot be read: ${file}. Export it again as PEM.`,
        { cause: error },
      );
    }
  }
  return found;
}

/**
 * The authorities that Node trusts by default (its own list, and `NODE_EXTRA_CA_CERTS`), and the store of the
 * operating system, which usually contains the authority of a company. `undefined` on Node 20, which cannot read that
 * store.
 */
function trustedBySystem(): string[] | undefined {
  if (!('getCACertificates' in tls) || typeof tls.getCACertificates !== 'function') return undefined;
  const { getCACertificates } = tls;
  const listed = (type: 'default' | 'system') => z.array(z.string()).parse(getCACertificates(type));
  return [...new Set([...listed('default'), ...listed('system')])];
}

interface NetworkRequest {
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

/** The route of the agent's connections, for people. Contains no password. */
interface NetworkDescription {
  /** `null` for a direct connection. */
  proxy: { address: string; source: string; hasPassword: boolean } | null;
  /** The PEM file of additional authorities. */
  caFile: string | null;
}

interface NetworkOptions {
  rules: ProxyRules;
  authorities: Authorities;
  /** How long a proxy may take to open a connection (default 15 s). */
  connectMs?: number;
}

const CONNECT_MS = 15_000;
const SILENT_MS = 30_000;
/** Less than the time for which servers and proxies usually keep an idle connection. */
const IDLE_MS = 4000;

/**
 * The route of this machine to servers: through the configured proxy, with the configured authorities. Every
 * connection of the agent and of the watchdog is made here. The verification of certificates cannot be switched off.
 */
export class Network {
  readonly #options: NetworkOptions;
  readonly #agents = new Map<string, http.Agent>();
  readonly #closing = new AbortController();

  constructor(options: NetworkOptions) {
    this.#options = options;
  }

  /** Sends one request and follows no redirect. Rejects with `NetworkError` if the server did not respond. */
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

  /** A local proxy that forwards to `url`, for a program that the agent starts. */
  async relay(url: URL): Promise<TunnelRelay> {
    const proxy = this.#options.rules.proxyFor(url);
    const { authorities, connectMs: timeoutMs = CONNECT_MS } = this.#options;
    const parts = { context: () => authorities.context(), timeoutMs, signal: this.#closing.signal };
    return startTunnelRelay(async (host, port) => {
      if (proxy === undefined) throw new Error('There is no proxy for this address.');
      return openTunnel({ ...parts, proxy, host, port });
    });
  }

  /** The certificates of all trusted authorities. */
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
      // Node aborts a request only once it has a socket, and a proxy may take long to provide one.
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

/** The network settings of the administrator. The file may contain a proxy's password. */
const NetworkSettings = z.object({
  /** The address of a proxy, or `none`. It takes precedence over `HTTPS_PROXY` and `HTTP_PROXY`. */
  proxy: z.string().optional(),
  /** As `NO_PROXY`, for `proxy`. */
  noProxy: z.string().optional(),
  /** A PEM file of authorities that are trusted in addition to those of the system. */
  caFile: z.string().optional(),
});
type NetworkSettings = z.infer<typeof NetworkSettings>;

/** Options of a command line: they take precedence, and `keepNetwork` stores them. */
interface NetworkChoice {
  proxy?: string | undefined;
  caFile?: string | undefined;
}

const settingsFile = (dataDir: string) => path.join(dataDir, 'network.json');

/**
 * Opens the network with the first configured value: `given`, then `MUSTER_PROXY` and `MUSTER_CA_FILE`, then the
 * settings of the agent, then the general proxy variables of the environment. Throws with the reason if a setting is
 * invalid.
 */
export async function openNetwork(
  dataDir: string,
  given: NetworkChoice = {},
  environment: NodeJS.ProcessEnv = process.env,
): Promise<Network> {
  const settings = await loadSettings(dataDir);
  const file = settingsFile(dataDir);
  const proxy = first(
    ['--proxy', given.proxy],
    ['MUSTER_PROXY', environment['MUSTER_PROXY']],
    [file, settings.proxy],
  );
  const ca = first(
    ['--ca', given.caFile],
    ['MUSTER_CA_FILE', environment['MUSTER_CA_FILE']],
    [file, settings.caFile],
  );
  const rules = new ProxyRules(
    { proxy: proxy?.value, noProxy: settings.noProxy },
    environment,
    proxy?.source,
  );
  const authorities = ca === undefined ? systemAuthorities() : await authoritiesWith(ca.value, ca.source);
  return new Network({ rules, authorities });
}

/** Without settings of an agent: for programs that simulate machines. */
export function environmentNetwork(environment: NodeJS.ProcessEnv = process.env): Network {
  return new Network({ rules: new ProxyRules({}, environment), authorities: systemAuthorities() });
}

/** Stores options of a command line for all later runs. The certificates are copied, so their file may be deleted. */
export async function keepNetwork(dataDir: string, { proxy, caFile }: NetworkChoice): Promise<void> {
  if (proxy === undefined && caFile === undefined) return;
  const settings = await loadSettings(dataDir);
  if (proxy !== undefined) settings.proxy = proxy;
  if (caFile !== undefined) {
    const certificates = await readCertificates(caFile, '--ca');
    settings.caFile = path.join(dataDir, 'ca.pem');
    await (await replaceFile(settings.caFile, Buffer.from(`${certificates.join('\n')}\n`))).close();
  }
  await writePrivateJson(settingsFile(dataDir), settings);
}

async function loadSettings(dataDir: string): Promise<NetworkSettings> {
  const file = settingsFile(dataDir);
  const kept = await readPrivateJson(file).catch((error: unknown) => {
    // The message of a JSON error may quote the file, which may hold a password.
    throw new Error(`The network settings in ${file} cannot be read.`, {
      cause: error instanceof SyntaxError ? undefined : error,
    });
  });
  const settings = NetworkSettings.safeParse(kept ?? {});
  if (settings.success) return settings.data;
  const [issue] = settings.error.issues;
  throw new Error(`${file} cannot be used: ${issue?.path.join('.')}: ${issue?.message}.`);
}

type Candidate = [source: string, value: string | undefined];

/** The first candidate that is set. An empty value counts as not set. */
function first(...candidates: Candidate[]): { source: string; value: string } | undefined {
  for (const [source, value] of candidates) {
    if (value !== undefined && value.trim() !== '') return { source, value: value.trim() };
  }
  return undefined;
}

/** True for an encrypted connection, and for one within this machine. */
export function isSecureServer(server: string): boolean {
  const url = URL.parse(server);
  if (url === null) return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'));
}
