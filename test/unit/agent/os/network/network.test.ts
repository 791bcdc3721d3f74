import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { download, DownloadError } from '../../../../../src/agent/capabilities/update/download.ts';
import { NetworkError, ProxyRules } from '../../../../../src/agent/os/network/proxy-rules.ts';
import {
  keepNetwork,
  openNetwork,
  Network,
  authoritiesWith,
  systemAuthorities,
} from '../../../../../src/agent/os/network/network.ts';
import { type ForwardProxy, startForwardProxy } from '../../../../support/forward-proxy.ts';
import {
  EXPIRED_CERTIFICATE,
  type HttpsServer,
  startHttpsServer,
  TEST_AUTHORITY,
} from '../../../../support/https-server.ts';

const SECRET = 'pass-word-of-the-proxy';

describe('agent: requests through proxies and with its own authorities', () => {
  let folder: string;
  let caFile: string;
  let server: HttpsServer;
  let plain: Server;
  let listener: RequestListener;
  let received: IncomingMessage[];
  const opened: Network[] = [];
  const proxies: ForwardProxy[] = [];

  before(async () => {
    const answer: RequestListener = (request, response) => {
      received.push(request);
      listener(request, response);
    };
    server = await startHttpsServer(answer);
    plain = createServer(answer);
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
    folder = await mkdtemp(path.join(tmpdir(), 'muster-network-'));
    caFile = path.join(folder, 'authority.pem');
    await writeFile(caFile, TEST_AUTHORITY);
  });
  after(async () => {
    await server.stop();
    plain.closeAllConnections();
    plain.close();
    await rm(folder, { recursive: true });
  });
  beforeEach(() => {
    received = [];
    listener = (request, response) => {
      let body = '';
      request.on('data', (chunk) => (body += chunk));
      request.on('end', () => response.end(`${request.method} ${request.url} ${body}`));
    };
  });
  afterEach(async () => {
    for (const network of opened.splice(0)) network.close();
    for (const proxy of proxies.splice(0)) await proxy.close();
    server.useCertificate('certificate');
  });

  /** With the server's authority, unless it says otherwise. */
  async function open(
    proxy: string | undefined,
    { ca = caFile, connectMs }: { ca?: string | null; connectMs?: number } = {},
  ): Promise<Network> {
    const rules = new ProxyRules({ proxy }, {}, '--proxy');
    const authorities = ca === null ? systemAuthorities() : await authoritiesWith(ca, '--ca');
    const network = new Network({ rules, authorities, ...(connectMs === undefined ? {} : { connectMs }) });
    opened.push(network);
    return network;
  }
  async function proxied(options: Parameters<typeof startForwardProxy>[0] = {}): Promise<ForwardProxy> {
    const proxy = await startForwardProxy(options);
    proxies.push(proxy);
    return proxy;
  }
  const https = (where = '/') => new URL(`https://idp.test:${server.port}${where}`);
  const http = (where = '/') => new URL(`http://idp.test:${(plain.address() as AddressInfo).port}${where}`);
  const textOf = async (stream: AsyncIterable<unknown>) => {
    let text = '';
    for await (const chunk of stream) text += String(chunk);
    return text;
  };
  const failureOf = async (network: Network, url = https(), silentMs = 2000): Promise<NetworkError> => {
    const error: unknown = await network.request(url, { silentMs }).then(
      ({ status }) => new Error(`answered with ${status}`),
      (caught: unknown) => caught,
    );
    expect(error).to.be.instanceOf(NetworkError);
    return error as NetworkError;
  };

  it('reach an https server by CONNECT, and an http server in absolute form, with user and password', async () => {
    const proxy = await proxied({ user: 'us@er', password: SECRET });
    const network = await open(`http://us%40er:${SECRET}@127.0.0.1:${proxy.port}`);
    for (const url of [https('/a?b=1'), http('/a?b=1')]) {
      const answer = await network.request(url, { method: 'POST', body: 'é', headers: { 'x-own': '1' } });
      expect([answer.status, await textOf(answer.body)]).to.deep.equal([200, 'POST /a?b=1 é']);
    }
    expect(proxy.requests).to.deep.equal([`CONNECT ${https().host}`, `POST ${http('/a?b=1').href}`]);
    for (const { headers } of received) {
      expect(headers).to.include({ 'x-own': '1' }).and.not.have.property('proxy-authorization');
    }
    expect(received.map(({ headers }) => headers.host)).to.deep.equal([https().host, http().host]);
  });

  it('reach both also through a proxy that is reached by TLS itself', async () => {
    const proxy = await proxied({ tls: true, user: 'u', password: SECRET });
    const network = await open(`https://u:${SECRET}@127.0.0.1:${proxy.port}`);
    expect((await network.request(https())).status).to.equal(200);
    expect((await network.request(http())).status).to.equal(200);
    const error = await failureOf(await open(proxy.url, { ca: null }));
    expect(error.message).to.contain(proxy.url).and.to.contain('--ca');
  });

  it('keep a connection open for the next request', async () => {
    const proxy = await proxied();
    const network = await open(proxy.url);
    for (let i = 0; i < 3; i++) await textOf((await network.request(https())).body);
    expect(proxy.requests).to.have.length(1);
  });

  it('explain a proxy that wants a password, refuses the one it gets, or refuses the server', async () => {
    const proxy = await proxied({ user: 'u', password: SECRET });
    for (const url of [https(), http()]) {
      const missing = await failureOf(await open(proxy.url), url);
      expect([missing.code, missing.message.includes('requires a user name')]).to.deep.equal([
        'PROXY_AUTHENTICATION',
        true,
      ]);
      const wrong = await failureOf(await open(`http://u:other-${SECRET}@127.0.0.1:${proxy.port}`), url);
      expect(wrong.message).to.contain('does not accept').and.not.contain(SECRET);
    }
    proxy.misbehavior = { status: 403 };
    const refused = await failureOf(await open(proxy.url));
    expect(refused.message).to.contain('status 403').and.to.contain(https().host);
    expect(received).to.have.length(0);
  });

  it('never take the answer of a proxy for one of the server', async () => {
    const proxy = await proxied();
    const network = await open(proxy.url);
    for (const status of [301, 400, 401, 500]) {
      proxy.misbehavior = { status, body: '{"error":"This device has been decommissioned."}' };
      expect((await failureOf(network)).code).to.equal('PROXY_REFUSED');
    }
    proxy.misbehavior = { early: 'HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n' };
    expect((await failureOf(network)).code).to.equal('PROXY_INVALID');
  });

  it('end at a proxy that never answers, answers nonsense without end, is gone, or loses what it carries', async () => {
    const proxy = await proxied();
    const network = await open(proxy.url, { connectMs: 200 });
    proxy.misbehavior = 'silent';
    expect((await failureOf(network)).code).to.equal('PROXY_TIMEOUT');
    for (const flood of ['nonsense '.repeat(1000), `HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(10_000)}`]) {
      proxy.flooded = 0;
      proxy.misbehavior = { flood };
      expect((await failureOf(network)).code).to.equal('PROXY_INVALID');
      expect(proxy.flooded).to.be.below(20_000_000);
    }
    proxy.misbehavior = 'lose';
    expect((await failureOf(network, https(), 200)).code).to.equal('TIMEOUT');
    proxy.misbehavior = undefined;
    await proxy.close();
    proxies.splice(0);
    expect((await failureOf(network)).code).to.equal('PROXY_NOT_REACHED');
  });

  it('fail when the proxy ends in the middle of an answer', async () => {
    const proxy = await proxied();
    const network = await open(proxy.url);
    listener = (_request, response) => {
      response.writeHead(200, { 'content-length': '1000' });
      response.write('begun');
    };
    const { body } = await network.request(https());
    const chunks: string[] = [];
    const reading = async () => {
      for await (const chunk of body) {
        chunks.push(String(chunk));
        proxy.cut();
      }
    };
    const error: unknown = await reading().catch((caught: unknown) => caught);
    expect(error).to.have.property('code', 'ECONNRESET');
    expect(chunks).to.deep.equal(['begun']);
  });

  it('are aborted at once, also while the proxy is silent', async () => {
    const proxy = await proxied();
    proxy.misbehavior = 'silent';
    const network = await open(proxy.url);
    const abort = new AbortController();
    setTimeout(() => abort.abort(), 50);
    const error: unknown = await network
      .request(https(), { signal: abort.signal })
      .catch((caught: unknown) => caught);
    expect(error).to.have.property('code', 'ABORTED');
    const again: unknown = await network
      .request(https(), { signal: abort.signal })
      .catch((caught: unknown) => caught);
    expect(again).to.have.property('code', 'ABORTED');
  });

  it('trust the authorities of the file and of the system, and explain a refused certificate', async () => {
    const local = new URL(`https://127.0.0.1:${server.port}`);
    expect((await (await open(undefined)).request(local)).status).to.equal(200);
    const unknown = await failureOf(await open(undefined, { ca: null }), local);
    expect(unknown.message).to.contain('--ca FILE').and.to.contain('MUSTER_CA_FILE');
    const other = await failureOf(
      await open((await proxied()).url),
      new URL(`https://elsewhere.example:${server.port}`),
    );
    expect(other.code).to.equal('ERR_TLS_CERT_ALTNAME_INVALID');
    server.useCertificate('expired');
    const expiredFile = path.join(folder, 'expired.pem');
    await writeFile(expiredFile, EXPIRED_CERTIFICATE);
    const expired = await failureOf(await open(undefined, { ca: expiredFile }), local);
    expect(expired.message).to.contain('has expired').and.to.contain('clock');
  });

  it('refuse a file of authorities that cannot be used', async () => {
    const file = path.join(folder, 'bad.pem');
    const refusal = async (at: string) =>
      String(await authoritiesWith(at, 'MUSTER_CA_FILE').catch((error: unknown) => error));
    expect(await refusal(file)).to.match(/MUSTER_CA_FILE.*ENOENT/);
    expect(await refusal(folder)).to.contain('cannot be read');
    for (const [content, reason] of [
      ['no certificate', 'holds no certificate'],
      ['-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----', 'Certificate 1'],
      ['x'.repeat(2_000_000), 'larger than'],
    ] as const) {
      await writeFile(file, content);
      expect(await refusal(file))
        .to.contain(reason)
        .and.to.contain(file);
    }
  });

  it('are configured by the command line, then the agent’s variables, then its settings, then the environment', async () => {
    const dataDir = await mkdtemp(path.join(folder, 'data-'));
    const environment = { HTTPS_PROXY: 'http://of-environment' };
    const url = new URL('https://rmm.example.com');
    const describe = async (given = {}, more = {}) => {
      const network = await openNetwork(dataDir, given, { ...environment, ...more });
      opened.push(network);
      return network.describe(url);
    };
    expect(await describe()).to.deep.equal({
      proxy: { address: 'http://of-environment:80', source: 'HTTPS_PROXY', hasPassword: false },
      caFile: null,
    });
    const bundle = path.join(folder, 'bundle.pem');
    await writeFile(
      bundle,
      `-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n${TEST_AUTHORITY}`,
    );
    await keepNetwork(dataDir, { proxy: `http://u:${SECRET}@kept`, caFile: bundle });
    await rm(bundle);
    const kept = await describe();
    expect(kept).to.deep.equal({
      proxy: { address: 'http://kept:80', source: path.join(dataDir, 'network.json'), hasPassword: true },
      caFile: path.join(dataDir, 'ca.pem'),
    });
    expect(await readFile(path.join(dataDir, 'ca.pem'), 'utf8')).to.not.contain('PRIVATE');
    expect((await stat(path.join(dataDir, 'network.json'))).mode & 0o077).to.equal(0);
    expect((await describe({}, { MUSTER_PROXY: 'variable' })).proxy?.source).to.equal('MUSTER_PROXY');
    expect((await describe({ proxy: 'none' }, { MUSTER_PROXY: 'variable' })).proxy).to.equal(null);
    await writeFile(path.join(dataDir, 'network.json'), `{"proxy":"http://u:${SECRET}@x`);
    expect(String(await describe().catch((error: unknown) => error)))
      .to.contain('network.json')
      .and.not.contain(SECRET);
  });

  describe('downloads', () => {
    const FILE = 'the content of the release';
    const files: RequestListener = (request, response) => {
      const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
      const isSame = request.headers['if-range'] === undefined || request.headers['if-range'] === '"v1"';
      if (from === 0 || !isSame) {
        response.writeHead(200, { etag: '"v1"', 'content-length': FILE.length }).end(FILE);
      } else {
        const range = `bytes ${from}-${FILE.length - 1}/${FILE.length}`;
        response.writeHead(206, { 'content-range': range }).end(FILE.slice(from));
      }
    };
    const own = () => https().origin;

    it('continue where an earlier one ended, or start again if the file has changed', async () => {
      listener = files;
      const network = await open((await proxied()).url);
      const about = { url: https('/release').href, server: own() };
      const whole = await download(network, about);
      expect([whole.start, whole.size, whole.etag, await textOf(whole.body)]).to.deep.equal([
        0,
        FILE.length,
        '"v1"',
        FILE,
      ]);
      const rest = await download(network, { ...about, from: 4, etag: '"v1"' });
      expect([rest.start, rest.size, await textOf(rest.body)]).to.deep.equal([4, FILE.length, FILE.slice(4)]);
      const changed = await download(network, { ...about, from: 4, etag: '"v0"' });
      expect([changed.start, await textOf(changed.body)]).to.deep.equal([0, FILE]);
    });

    it('send the token to the own server only, also after redirects', async () => {
      listener = (request, response) => {
        if (request.url !== '/release') return files(request, response);
        response.writeHead(302, { location: `https://files.idp.test:${server.port}/signed` }).end();
      };
      const network = await open((await proxied()).url);
      await download(network, { url: https('/release').href, server: own(), token: 'magt_secret' });
      expect(received.map(({ headers }) => headers.authorization)).to.deep.equal([
        'Bearer magt_secret',
        undefined,
      ]);
    });

    it('refuse redirects to unencrypted addresses, to other protocols and without end', async () => {
      const network = await open((await proxied()).url);
      for (const location of [http('/release').href, 'file:///etc/passwd', '/again', '']) {
        listener = (_request, response) => void response.writeHead(302, { location }).end();
        const error: unknown = await download(network, { url: https('/release').href, server: own() }).catch(
          (caught: unknown) => caught,
        );
        expect(error, location).to.have.property('code', 'REDIRECT_REFUSED');
      }
      expect(received.length).to.be.below(15);
    });

    it('report a refusal with its status and the requested wait, and a part that was not asked for', async () => {
      const network = await open(undefined);
      const about = { url: `https://127.0.0.1:${server.port}/x`, server: own(), from: 4 };
      const failure = async () => download(network, about).catch((caught: unknown) => caught);
      listener = (_request, response) => void response.writeHead(503, { 'retry-after': '7' }).end('busy');
      const refused = await failure();
      expect(refused).to.be.instanceOf(DownloadError).and.include({ status: 503, retryAfterMs: 7000 });
      listener = (_request, response) =>
        void response.writeHead(206, { 'content-range': 'bytes 0-3/9' }).end('abcd');
      expect(await failure()).to.have.property('code', 'RANGE_INVALID');
    });
  });

  it('end at a server that is silent', async () => {
    const silent = createTcpServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const url = new URL(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`);
    const network = await open(undefined);
    expect((await failureOf(network, url, 100)).code).to.equal('TIMEOUT');
    network.close();
    silent.close();
  });
});
