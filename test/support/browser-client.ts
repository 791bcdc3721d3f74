import * as http from 'node:http';
import * as https from 'node:https';
import { isIP } from 'node:net';

/** What a browser shows after it has followed every redirect. */
export interface Page {
  /** With its fragment, which the server never sees. */
  url: string;
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
  /** Every URL on the way, the last included. */
  visited: string[];
}

interface Cookie {
  host: string;
  path: string;
  name: string;
  value: string;
  secure: boolean;
  sameSite: 'lax' | 'strict' | 'none';
  httpOnly: boolean;
}

const REDIRECTS_MAX = 20;

/**
 * A client that behaves as a browser does in a sign-in: it keeps cookies by host and path, withholds them from other sites
 * as SameSite says, follows redirects with their fragments, and submits forms. Every host name leads to 127.0.0.1.
 */
export class BrowserClient {
  readonly #cookies: Cookie[] = [];
  /** Keep connections open between requests, as browsers do. */
  readonly #http = new http.Agent({ keepAlive: true });
  readonly #https: https.Agent;

  constructor({ ca }: { ca?: string } = {}) {
    this.#https = new https.Agent({ keepAlive: true, ...(ca === undefined ? {} : { ca }) });
  }

  /** Closes its connections. */
  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  get cookies(): readonly Readonly<Cookie>[] {
    return this.#cookies;
  }

  /**
   * Opens a URL as if it were typed in.
   * @param until  the beginning of a URL that is not asked for any more, as if its server did not answer
   */
  async open(url: string, { until }: { until?: string } = {}): Promise<Page> {
    return this.#navigate({ url, method: 'GET', from: undefined }, until);
  }

  /** Submits the first form of a page. `fields` are added to those that the form holds. */
  async submit(page: Page, fields: Record<string, string> = {}): Promise<Page> {
    const form = /<form[^>]*>[\s\S]*?<\/form>/i.exec(page.text)?.[0];
    if (form === undefined) throw new Error(`${page.url} shows no form: ${page.text.slice(0, 300)}`);
    const attributes = attributesOf(/<form[^>]*>/i.exec(form)?.[0] ?? '');
    const values: Record<string, string> = {};
    for (const [tag] of form.matchAll(/<input[^>]*>/gi)) {
      const { name, value = '' } = attributesOf(tag);
      if (name !== undefined) values[name] = value;
    }
    const url = new URL(attributes['action'] ?? page.url, page.url).href;
    const body = new URLSearchParams({ ...values, ...fields }).toString();
    const method = attributes['method']?.toUpperCase() === 'GET' ? 'GET' : 'POST';
    return method === 'GET'
      ? this.#navigate({ url: `${url}?${body}`, method, from: page.url })
      : this.#navigate({ url, method, body, from: page.url });
  }

  /** Keeps a cookie that a script of the page was given by `url`. */
  keep(setCookie: string, url: string): void {
    this.#keep(setCookie, new URL(url));
  }

  async #navigate(first: Navigation, until?: string): Promise<Page> {
    const visited: string[] = [];
    let next = first;
    for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
      visited.push(next.url);
      const { status, headers, text } = await this.#request(next);
      const { location } = headers;
      if (status < 300 || status >= 400 || location === undefined) {
        return { url: next.url, status, headers, text, visited };
      }
      const url = new URL(location, next.url).href;
      if (until !== undefined && url.startsWith(until)) {
        return { url, status, headers, text, visited: [...visited, url] };
      }
      // 307 and 308 repeat the request; after the others a browser sends a GET.
      const repeats = status === 307 || status === 308;
      next = repeats ? { ...next, url } : { url, method: 'GET', from: next.from };
    }
    throw new Error(`redirected too often: ${visited.join(' → ')}`);
  }

  #request({ url: text, method, body, from }: Navigation): Promise<Answer> {
    const url = new URL(text);
    const cookie = this.#cookies
      .filter((one) => isSent(one, url, { method, from }))
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ');
    const options: https.RequestOptions = {
      method,
      host: '127.0.0.1',
      // Of an address there is no server name (RFC 6066).
      ...(isIP(url.hostname) === 0 ? { servername: url.hostname } : {}),
      port: url.port,
      path: `${url.pathname}${url.search}`,
      agent: url.protocol === 'https:' ? this.#https : this.#http,
      headers: {
        host: url.host,
        ...(cookie === '' ? {} : { cookie }),
        ...(body === undefined
          ? {}
          : {
              'content-type': 'application/x-www-form-urlencoded',
              'content-length': Buffer.byteLength(body),
              origin: from === undefined ? 'null' : new URL(from).origin,
            }),
      },
    };
    return new Promise((resolve, reject) => {
      const send = url.protocol === 'https:' ? https.request : http.request;
      const request = send(options, (response) => {
        const pieces: Buffer[] = [];
        response.on('data', (piece: Buffer) => pieces.push(piece));
        response.on('error', reject);
        response.on('end', () => {
          for (const line of response.headers['set-cookie'] ?? []) this.#keep(line, url);
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(pieces).toString(),
          });
        });
      });
      request.on('error', reject);
      request.end(body);
    });
  }

  #keep(line: string, url: URL): void {
    const [pair = '', ...attributes] = line.split(';').map((part) => part.trim());
    const [name = '', ...value] = pair.split('=');
    const given = new Map(
      attributes.map((attribute) => {
        const [key = '', ...rest] = attribute.split('=');
        return [key.toLowerCase(), rest.join('=')];
      }),
    );
    const path = given.get('path') ?? url.pathname.replace(/\/[^/]*$/, '');
    const sameSite = given.get('samesite')?.toLowerCase();
    const kept = this.#cookies.findIndex(
      (one) => one.host === url.hostname && one.name === name && one.path === path,
    );
    if (kept >= 0) this.#cookies.splice(kept, 1);
    const expires = given.get('expires');
    const isOver =
      Number(given.get('max-age') ?? 1) <= 0 || (expires !== undefined && Date.parse(expires) <= Date.now());
    if (isOver) return;
    this.#cookies.push({
      host: url.hostname,
      path: path === '' ? '/' : path,
      name,
      value: value.join('='),
      secure: given.has('secure'),
      sameSite: sameSite === 'strict' || sameSite === 'none' ? sameSite : 'lax',
      httpOnly: given.has('httponly'),
    });
  }
}

interface Navigation {
  url: string;
  method: 'GET' | 'POST';
  body?: string;
  /** The page whose link or form leads here; undefined: typed in. */
  from: string | undefined;
}

type Answer = Pick<Page, 'status' | 'headers' | 'text'>;

function isSent(cookie: Cookie, url: URL, { method, from }: Pick<Navigation, 'method' | 'from'>): boolean {
  if (cookie.host !== url.hostname) return false;
  if (cookie.secure && url.protocol !== 'https:') return false;
  const isBelow = url.pathname === cookie.path || url.pathname.startsWith(cookie.path.replace(/\/?$/, '/'));
  if (!isBelow) return false;
  const isSameSite = from === undefined || new URL(from).hostname === url.hostname;
  if (isSameSite || cookie.sameSite === 'none') return true;
  return cookie.sameSite === 'lax' && method === 'GET';
}

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'", '#x27': "'" };

function attributesOf(tag: string): Record<string, string | undefined> {
  const found: Record<string, string> = {};
  for (const [, name = '', double, single] of tag.matchAll(/([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    const text = double ?? single ?? '';
    found[name.toLowerCase()] = text.replaceAll(
      /&([#\w]+);/g,
      (all, entity: string) => ENTITIES[entity] ?? all,
    );
  }
  return found;
}
