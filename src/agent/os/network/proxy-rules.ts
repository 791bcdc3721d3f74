import { clock } from '../../../clock.ts';
import { BlockList, isIP, isIPv6 } from 'node:net';
import { X509Certificate } from 'node:crypto';
import tls, { type PeerCertificate } from 'node:tls';

/** A request without a response of the server: the network, a proxy or a certificate has failed. Contains no secret. */
export class NetworkError extends Error {
  /** An error code, such as `ECONNREFUSED` or `PROXY_AUTHENTICATION`. */
  readonly code: string;

  constructor(code: string, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'NetworkError';
    this.code = code;
  }
}

const UNKNOWN_AUTHORITY = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

const ADD_AUTHORITY =
  'If the server has a certificate of your own authority, or a proxy decrypts connections, give the certificate of that authority as a PEM file: muster-agent enroll --ca FILE, or MUSTER_CA_FILE.';

/** Explains why `who` (a host and its port) could not be reached, and how to fix it. */
export function explainFailure(error: unknown, who: string, proxy?: Proxy): NetworkError {
  if (error instanceof NetworkError) return error;
  const code = codeOf(error);
  const way = proxy === undefined ? '' : ` through the proxy ${proxy.address}`;
  const fail = (message: string) => new NetworkError(code, message, error);
  if (UNKNOWN_AUTHORITY.has(code)) {
    return fail(
      `The certificate of ${who}${way} is signed by an authority that this machine does not trust (${code}). ${ADD_AUTHORITY}`,
    );
  }
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return fail(
        `The certificate of ${who}${way} has expired. Renew it on the server. If it is valid, correct the clock of this machine, which shows ${clock.date().toISOString()}.`,
      );
    case 'CERT_NOT_YET_VALID':
      return fail(
        `The certificate of ${who}${way} is not valid yet. Correct the clock of this machine, which shows ${clock.date().toISOString()}.`,
      );
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return fail(
        `The certificate of ${who}${way} is for another name. Enroll with the name that is in the certificate, or correct the certificate of the server.`,
      );
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return fail(`The name of ${who} cannot be resolved (${code}). Check the name and the DNS.`);
    default:
      return fail(`${who}${way} could not be reached (${code}). Check the address and the firewall.`);
  }
}

/** Explains why a proxy could not be used. */
export function explainProxyFailure(error: unknown, proxy: Proxy): NetworkError {
  if (error instanceof NetworkError) return error;
  const code = codeOf(error);
  const who = `The proxy ${proxy.address} (from ${proxy.source})`;
  if (code.startsWith('HPE_')) {
    return new NetworkError('PROXY_INVALID', `${who} does not answer like an HTTP proxy (${code}).`, error);
  }
  if (UNKNOWN_AUTHORITY.has(code) || code.startsWith('CERT_') || code.startsWith('ERR_TLS_')) {
    return explainFailure(error, `the proxy ${proxy.address}`);
  }
  return new NetworkError(
    'PROXY_NOT_REACHED',
    `${who} could not be reached (${code}). Check its address, or exempt the server with NO_PROXY.`,
    error,
  );
}

/** Explains the status with which a proxy has refused to connect to `target`. */
export function explainProxyRefusal(status: number, proxy: Proxy, target: string): NetworkError {
  const who = `The proxy ${proxy.address} (from ${proxy.source})`;
  if (status === 407) {
    const reason = proxy.hasPassword
      ? 'does not accept the user name and password that are configured for it.'
      : 'requires a user name and a password. Configure it as http://USER:PASSWORD@HOST:PORT.';
    return new NetworkError('PROXY_AUTHENTICATION', `${who} ${reason}`);
  }
  return new NetworkError(
    'PROXY_REFUSED',
    `${who} refuses to connect to ${target} (status ${status}). Allow ${target} at the proxy.`,
  );
}

function codeOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return error instanceof Error ? error.name : 'unknown error';
}

interface ProxyConfiguration {
  /** The address of a proxy for everything, or `none`. It takes precedence over the environment. */
  proxy?: string | undefined;
  /** As `NO_PROXY`, for `proxy`. */
  noProxy?: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Decides which proxy a URL is reached through. Pure. Throws if a configured proxy cannot be used. */
export class ProxyRules {
  readonly #encrypted: Proxy | undefined;
  readonly #plain: Proxy | undefined;
  readonly #noProxy: string;
  readonly #skipsLoopback: boolean;

  constructor({ proxy, noProxy }: ProxyConfiguration, environment: Environment, source = 'the settings') {
    if (proxy !== undefined) {
      this.#encrypted = proxy === 'none' ? undefined : Proxy.parse(proxy, source);
      this.#plain = this.#encrypted;
      this.#noProxy = noProxy ?? '';
      this.#skipsLoopback = false;
      return;
    }
    this.#encrypted = proxyIn(environment, 'https_proxy');
    this.#plain = proxyIn(environment, 'http_proxy');
    this.#noProxy = valueIn(environment, 'no_proxy')?.value ?? '';
    // A proxy of the environment is for all programs of this machine, and rarely runs on this machine itself.
    this.#skipsLoopback = true;
  }

  /** `undefined` for a direct connection. Accepts URLs of http, https, ws and wss. */
  proxyFor(url: URL): Proxy | undefined {
    const proxy = /^(https|wss):$/.test(url.protocol) ? this.#encrypted : this.#plain;
    if (proxy === undefined || isExcepted(url, this.#noProxy)) return undefined;
    return this.#skipsLoopback && isLoopback(url.hostname) ? undefined : proxy;
  }
}

function proxyIn(environment: Environment, name: string): Proxy | undefined {
  const found = valueIn(environment, name);
  return found === undefined ? undefined : Proxy.parse(found.value, found.name);
}

/** The lower-case name comes first, as in curl. An empty value counts as not set. */
function valueIn(environment: Environment, lower: string): { name: string; value: string } | undefined {
  for (const name of [lower, lower.toUpperCase()]) {
    const value = environment[name]?.trim();
    if (value !== undefined && value !== '') return { name, value };
  }
  return undefined;
}

/** One HTTP proxy. Its user and password are private: printing, logging and JSON show only the address. */
export class Proxy {
  readonly isEncrypted: boolean;
  readonly host: string;
  readonly port: number;
  /** The origin of the address, for messages: `HTTPS_PROXY` or `--proxy`. */
  readonly source: string;
  readonly #authorization: string | undefined;

  private constructor(url: URL, source: string, authorization: string | undefined) {
    this.isEncrypted = url.protocol === 'https:';
    this.host = url.hostname.replace(/^\[|\]$/g, '');
    this.port = Number(url.port) || (this.isEncrypted ? 443 : 80);
    this.source = source;
    this.#authorization = authorization;
  }

  /**
   * Parses an address such as `http://user:password@proxy.example.com:3128`; the scheme may be left out. Throws if it
   * is invalid. No message repeats the text, which may contain a password.
   */
  static parse(text: string, source: string): Proxy {
    const trimmed = text.trim();
    const url = URL.parse(/^[a-z][a-z\d+.-]*:\/\//i.test(trimmed) ? trimmed : `http://${trimmed}`);
    if (url === null || url.hostname === '') {
      throw new Error(
        `The proxy in ${source} is not an address such as http://proxy.example.com:3128. ${ENCODE_SPECIALS}`,
      );
    }
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw new Error(
        `The proxy in ${source} must begin with http:// or https://; ${url.protocol}// is not supported.`,
      );
    }
    if (url.pathname !== '/' || url.search !== '' || url.hash !== '') {
      throw new Error(`The proxy in ${source} must not contain a path. ${ENCODE_SPECIALS}`);
    }
    return new Proxy(url, source, authorizationOf(url, source));
  }

  /** Without user and password. */
  get address(): string {
    const host = this.host.includes(':') ? `[${this.host}]` : this.host;
    return `${this.isEncrypted ? 'https' : 'http'}://${host}:${this.port}`;
  }

  get hasPassword(): boolean {
    return this.#authorization !== undefined;
  }

  /** The headers that authenticate the agent at the proxy. They must be sent only to the proxy. */
  headers(): Record<string, string> {
    return this.#authorization === undefined ? {} : { 'proxy-authorization': this.#authorization };
  }
}

const ENCODE_SPECIALS =
  'Special characters of a user name or password must be percent-encoded, such as %40 for @ and %2F for /.';

function authorizationOf({ username, password }: URL, source: string): string | undefined {
  if (username === '' && password === '') return undefined;
  try {
    const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    return `Basic ${Buffer.from(pair).toString('base64')}`;
  } catch {
    throw new Error(`The user name or password of the proxy in ${source} cannot be read. ${ENCODE_SPECIALS}`);
  }
}

/**
 * Whether a certificate is for the host. Node 22.23 treats an IPv6 address as a name, which no certificate has; here,
 * OpenSSL compares the addresses of a certificate.
 */
export function checkServerIdentity(host: string, certificate: PeerCertificate): Error | undefined {
  if (isIPv6(host) && new X509Certificate(certificate.raw).checkIP(host) !== undefined) return undefined;
  return tls.checkServerIdentity(host, certificate);
}

/**
 * Whether `NO_PROXY` exempts a URL from the proxy. Entries are separated by commas or blanks: `*`, a domain (including
 * its subdomains), an address, or a range of addresses such as 10.0.0.0/8. Each may end with a port. Pure.
 */
export function isExcepted({ protocol, hostname, port }: URL, noProxy: string): boolean {
  const host = plainHost(hostname);
  const wanted = port === '' ? (/^(https|wss):$/.test(protocol) ? '443' : '80') : port;
  return noProxy.split(/[\s,]+/).some((text) => {
    if (text === '*') return true;
    const entry = parseEntry(text);
    return entry !== undefined && (entry.port ?? wanted) === wanted && matches(host, entry);
  });
}

/** True for names and addresses of this machine itself, which a remote proxy cannot reach. */
function isLoopback(hostname: string): boolean {
  const host = plainHost(hostname);
  return (
    host === 'localhost' || host.endsWith('.localhost') || isInRange(host, '127.0.0.0', 8) || host === '::1'
  );
}

interface Entry {
  host: string;
  port: string | undefined;
  bits: number | undefined;
}

function parseEntry(text: string): Entry | undefined {
  const range = /^(.+)\/(\d{1,3})$/.exec(text);
  if (range !== null) return { host: plainHost(range[1] ?? ''), port: undefined, bits: Number(range[2]) };
  // An IPv6 address contains colons itself, so it has a port only if it is in brackets.
  const withPort = isIP(text) === 0 ? /^(.+):(\d{1,5})$/.exec(text) : null;
  const host = plainHost(withPort?.[1] ?? text).replace(/^\*?\./, '');
  return host === '' ? undefined : { host, port: withPort?.[2], bits: undefined };
}

function matches(host: string, { host: named, bits }: Entry): boolean {
  const family = isIP(named);
  if (bits !== undefined) return family !== 0 && isInRange(host, named, bits);
  if (family !== 0) return isInRange(host, named, family === 4 ? 32 : 128);
  return host === named || (isIP(host) === 0 && host.endsWith(`.${named}`));
}

function isInRange(host: string, network: string, bits: number): boolean {
  const family = isIP(host);
  if (family === 0 || family !== isIP(network) || bits > (family === 4 ? 32 : 128)) return false;
  const range = new BlockList();
  const type = family === 4 ? 'ipv4' : 'ipv6';
  range.addSubnet(network, bits, type);
  return range.check(host, type);
}

const plainHost = (host: string) =>
  host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
