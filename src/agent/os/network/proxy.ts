/**
 * One HTTP proxy. Its user and password are private: whatever is printed, logged or turned into JSON shows the address
 * only.
 */
export class Proxy {
  readonly isEncrypted: boolean;
  readonly host: string;
  readonly port: number;
  /** Where the address was configured, for people: `HTTPS_PROXY` or `--proxy`. */
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
   * Reads an address such as `http://user:password@proxy.example.com:3128`; the scheme may be left out. Throws where it
   * cannot be used. No message repeats the text, which may hold a password.
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

  /** The headers by which the agent signs in at the proxy. They must go to the proxy only. */
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
