import { isExcepted, isLoopback } from './no-proxy.ts';
import { Proxy } from './proxy.ts';

export interface ProxyConfiguration {
  /** The address of a proxy for everything, or `none`. It takes precedence over the environment. */
  proxy?: string | undefined;
  /** As `NO_PROXY`, for `proxy`. */
  noProxy?: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Decides which proxy a URL is reached through. Pure. Throws where a configured proxy cannot be used. */
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
    // A proxy of the environment is for the programs of this machine at large: it is rarely on this machine itself.
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
