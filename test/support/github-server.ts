import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type DnsServer, startDnsServer } from './dns-server.ts';
import { startHttpsServer, TEST_AUTHORITY } from './https-server.ts';

/**
 * As much of GitHub as a release needs, with its habits: the API on one host, files on a second one, which redirects to a
 * third, which refuses whoever brings an Authorization. Tests break it by `faults`, `limit` and `page`.
 */
export interface GithubServer {
  /** What GITHUB_RELEASES_URL is. */
  releasesUrl: string;
  env: Record<string, string>;
  outbound: { ca: string; nameServers: readonly string[] };
  /** Newest first, as GitHub lists them. */
  releases: FakeRelease[];
  pageSize: number;
  /** By the name of a file. */
  faults: Map<string, FileFault>;
  /** Answers the API instead. */
  limit: { status: number; headers: Record<string, string> } | undefined;
  /** The body of a page of the list, instead of what it is. */
  page: string | undefined;
  /** Where the next page is, instead of where it is. */
  nextPage: string | undefined;
  /** Files are only for those who have the token, and by the API. */
  isPrivate: boolean;
  requests: { host: string; path: string; status: number; authorization: string | undefined }[];
  close(): Promise<void>;
}

export interface FakeRelease {
  tag: string;
  prerelease?: boolean;
  draft?: boolean;
  body?: string | null;
  files: Record<string, Buffer>;
  /** What the API says of a file, where it lies. */
  claims?: Record<
    string,
    { size?: number; digest?: string | null; state?: string; browser_download_url?: string }
  >;
}

export type FileFault = 'truncated' | 'longer' | 'other' | 'dropped' | 'gone' | 'elsewhere' | 'compressed';

export const GITHUB_TOKEN = 'ghp_of-the-tests';
const REPOSITORY = '/repos/muster/muster/releases';

export const digestOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

export async function startGithubServer(): Promise<GithubServer> {
  const dns: DnsServer = await startDnsServer();
  const hosts = ['api', 'files', 'cdn', 'evil'].map((name) => `${name}.idp.test`);
  for (const host of hosts) dns.set(host, ['127.0.0.1']);
  const server = await startHttpsServer((request, response) => {
    answer(self, request, response);
    const { host = '', authorization } = request.headers;
    self.requests.push({
      host: host.split(':')[0] ?? '',
      path: request.url ?? '',
      status: response.statusCode,
      authorization,
    });
  });
  const releasesUrl = `https://api.idp.test:${server.port}${REPOSITORY}`;
  const self: GithubServer = {
    releasesUrl,
    env: {
      GITHUB_RELEASES_URL: releasesUrl,
      GITHUB_FILE_HOSTS: 'files.idp.test,cdn.idp.test',
      GITHUB_ALLOWED_PRIVATE_CIDRS: '127.0.0.1',
    },
    outbound: { ca: TEST_AUTHORITY, nameServers: [dns.address] },
    releases: [],
    pageSize: 2,
    faults: new Map(),
    limit: undefined,
    page: undefined,
    nextPage: undefined,
    isPrivate: false,
    requests: [],
    async close() {
      await server.stop();
      dns.close();
    },
  };
  return self;
}

function answer(self: GithubServer, request: IncomingMessage, response: ServerResponse): void {
  const [host, port] = (request.headers.host ?? '').split(':');
  const url = new URL(request.url ?? '', `https://${host}:${port}`);
  if (host === 'api.idp.test') return api(self, url, request, response);
  const [file, bytes] = fileAt(self, url) ?? ['', undefined];
  if (bytes === undefined) return end(response, 404);
  const fault = self.faults.get(file);
  if (host === 'cdn.idp.test') {
    // As the storage behind GitHub does.
    if (request.headers.authorization !== undefined) return end(response, 400);
    return send(response, bytes, fault);
  }
  if (host !== 'files.idp.test' || self.isPrivate || fault === 'gone') return end(response, 404);
  redirect(response, url, fault);
}

function api(self: GithubServer, url: URL, request: IncomingMessage, response: ServerResponse): void {
  if (self.limit !== undefined) return end(response, self.limit.status, self.limit.headers);
  const { authorization } = request.headers;
  if (authorization !== undefined && authorization !== `Bearer ${GITHUB_TOKEN}`) return end(response, 401);
  const rest = url.pathname.slice(REPOSITORY.length);
  if (rest.startsWith('/assets/')) {
    if (self.isPrivate && authorization === undefined) return end(response, 404);
    const [file] = fileAt(self, url) ?? [];
    return file === undefined ? end(response, 404) : redirect(response, url, self.faults.get(file));
  }
  if (rest.startsWith('/tags/')) {
    const tag = decodeURIComponent(rest.slice('/tags/'.length));
    const release = self.releases.find((one) => one.tag === tag && one.draft !== true);
    return release === undefined ? end(response, 404) : json(request, response, described(release, url));
  }
  if (rest !== '') return end(response, 404);
  const page = Number(url.searchParams.get('page') ?? 1);
  const from = (page - 1) * self.pageSize;
  const shown = self.releases.slice(from, from + self.pageSize);
  if (from + self.pageSize < self.releases.length) {
    const next = new URL(url);
    next.searchParams.set('page', String(page + 1));
    const first = `<${url.href}>; rel="first"`;
    response.setHeader(
      'link',
      `${first}, <${self.nextPage ?? next.href}>; rel="next", ${first.replace('first"', 'last"')}`,
    );
  }
  json(request, response, self.page ?? shown.map((one) => described(one, url)));
}

function described(
  { tag, prerelease = false, draft = false, body = null, files, claims = {} }: FakeRelease,
  { host }: URL,
) {
  const assets = Object.entries(files).map(([name, bytes]) => ({
    name,
    size: bytes.length,
    state: 'uploaded',
    digest: `sha256:${digestOf(bytes)}`,
    url: `https://${host}${REPOSITORY}/assets/${tag}/${name}`,
    browser_download_url: `https://${host.replace('api', 'files')}/muster/muster/releases/download/${tag}/${name}`,
    ...claims[name],
  }));
  return { tag_name: tag, prerelease, draft, body, assets };
}

function json(request: IncomingMessage, response: ServerResponse, value: unknown): void {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const etag = `W/"${digestOf(Buffer.from(text))}"`;
  response.setHeader('etag', etag);
  if (request.headers['if-none-match'] === etag) return end(response, 304);
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(text);
}

/** The name of the file that a path ends with, and its bytes. */
function fileAt(self: GithubServer, { pathname }: URL): [string, Buffer] | undefined {
  const [tag, name] = pathname.split('/').slice(-2);
  const bytes = self.releases.find((one) => one.tag === tag)?.files[name ?? ''];
  return bytes === undefined ? undefined : [name ?? '', bytes];
}

function redirect(response: ServerResponse, url: URL, fault: FileFault | undefined): void {
  const host = fault === 'elsewhere' ? 'evil.idp.test' : 'cdn.idp.test';
  end(response, 302, { location: `https://${host}:${url.port}${url.pathname}?signature=x` });
}

function send(response: ServerResponse, bytes: Buffer, fault: FileFault | undefined): void {
  if (fault === 'compressed') response.setHeader('content-encoding', 'gzip');
  if (fault === 'dropped') {
    response.writeHead(200, { 'content-length': bytes.length });
    response.write(bytes.subarray(0, -1), () => response.destroy());
    return;
  }
  const other = Buffer.from(bytes);
  other[0] = (other[0] ?? 0) ^ 1;
  const sent = {
    truncated: bytes.subarray(0, -1),
    longer: Buffer.concat([bytes, Buffer.from('x')]),
    other,
  };
  response.end(fault !== undefined && fault in sent ? sent[fault as keyof typeof sent] : bytes);
}

function end(response: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  response.writeHead(status, headers).end();
}
