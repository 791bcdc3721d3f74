import { expect } from 'chai';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import * as http from 'node:http';
import * as https from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { GuardedFetch, type GuardedFetchOptions } from '../../../../src/platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../../../src/platform/outbound/outbound-error.ts';
import { type DnsServer, startDnsServer } from '../../../support/dns-server.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const certificates = new URL('certificates/', import.meta.url);
const pem = (name: string) => readFileSync(new URL(name, certificates), 'utf8');

const JSON_TYPE = { accept: ['application/json'] };

describe('the guarded fetch', () => {
  let dns: DnsServer;
  const open: Server[] = [];
  const { log, lines } = recordingLog();

  before(async () => {
    dns = await startDnsServer();
  });
  after(() => dns.close());
  afterEach(() => {
    for (const server of open.splice(0)) {
      server.close();
      if (server instanceof http.Server) server.closeAllConnections();
    }
    lines.length = 0;
  });

  async function listen(server: Server, host = '127.0.0.1', port = 0): Promise<number> {
    open.push(server);
    server.listen(port, host);
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }

  /** A plain server that counts what reaches it. */
  async function serve(
    handler: http.RequestListener = (_request, response) => json(response, { ok: true }),
    host?: string,
    port?: number,
  ): Promise<{ port: number; requests: http.IncomingMessage[] }> {
    const requests: http.IncomingMessage[] = [];
    const server = http.createServer((request, response) => {
      requests.push(request);
      handler(request, response);
    });
    return { port: await listen(server, host, port), requests };
  }

  async function serveTls(handler?: http.RequestListener): Promise<number> {
    const options = { cert: pem('certificate.pem'), key: pem('key.pem') };
    return listen(
      https.createServer(options, handler ?? ((_request, response) => json(response, { ok: true }))),
    );
  }

  const guard = (options: Partial<GuardedFetchOptions> = {}): GuardedFetch =>
    new GuardedFetch({
      addresses: { allowedInternal: ['127.0.0.0/8'] },
      log,
      ...options,
      testing: { allowHttp: true, nameServers: [dns.address], ...options.testing },
    });

  async function failureOf(answer: Promise<unknown>): Promise<OutboundError> {
    const error: unknown = await answer.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (!(error instanceof OutboundError)) throw new Error(`No OutboundError: ${String(error)}`);
    return error;
  }

  const reasonOf = async (answer: Promise<unknown>) => (await failureOf(answer)).reason;

  describe('refuses addresses', () => {
    const VECTORS = [
      '127.0.0.1',
      '[::1]',
      '0.0.0.0',
      '[::ffff:127.0.0.1]',
      '2130706433',
      '0x7f000001',
      '0177.0.0.1',
      'localhost',
      'localhost.',
      '[64:ff9b::7f00:1]',
      '[::]',
      '169.254.169.254',
      // Further forms of the same.
      '127.1',
      '[::7f00:1]',
      '[::ffff:7f00:1]',
      '[2002:7f00:1::]',
      '１２７.０.０.１',
      '127。0。0。1',
      '10.0.0.1',
      '[fd00::1]',
      '100.64.0.1',
    ];
    for (const host of VECTORS) {
      it(`such as ${host}, and connects to nothing`, async () => {
        const { port, requests } = await serve(undefined, '0.0.0.0');
        const strict = guard({ addresses: {} });
        expect(await reasonOf(strict.fetch(`http://${host}:${port}/`, JSON_TYPE))).to.equal('unreachable');
        expect(requests).to.have.length(0);
      });
    }

    it('that a name leads to, also when others of the same answer are public', async () => {
      const { port, requests } = await serve();
      dns.set('inner.test', ['127.0.0.1']);
      dns.set('mixed.test', ['8.8.8.8', '127.0.0.1']);
      dns.set('mixed6.test', ['8.8.8.8', '::1']);
      dns.set('nat64.test', ['64:ff9b::7f00:1']);
      const strict = guard({ addresses: {} });
      for (const name of ['inner.test', 'mixed.test', 'mixed6.test', 'nat64.test', 'unknown.test']) {
        expect(await reasonOf(strict.fetch(`http://${name}:${port}/`)), name).to.equal('unreachable');
      }
      expect(requests).to.have.length(0);
    });

    it('with one and the same error for all that concerns the inner network', async () => {
      const { port: closed } = await serve();
      open.splice(0).forEach((server) => server.close());
      const silent = await listen(createTcpServer(() => undefined));
      const talkative = await listen(createTcpServer((socket) => void socket.end('SSH-2.0\r\n')));
      dns.set('inner.test', ['10.9.8.7']);
      const fetcher = guard({ limits: { connectMs: 150 } });
      const urls = [
        'https://inner.test/',
        'https://unknown.test/',
        'https://10.9.8.7/',
        `https://127.0.0.1:${closed}/`,
        `https://127.0.0.1:${silent}/`,
        `https://127.0.0.1:${talkative}/`,
      ];
      const failures = await Promise.all(urls.map((url) => failureOf(fetcher.fetch(url))));
      for (const failure of failures) {
        expect({
          message: failure.message,
          cause: failure.cause,
          ...Object.fromEntries(Object.entries(failure)),
        }).to.deep.equal({
          name: 'OutboundError',
          reason: 'unreachable',
          message: 'The server at this URL could not be reached.',
          cause: undefined,
        });
      }
      expect(JSON.stringify(lines)).to.contain('10.9.8.7 may not be reached');
    });
  });

  it('connects to the address that was checked, and not to what the name leads to later', async () => {
    const good = await serve(undefined, '127.0.0.2');
    const inner = await serve(undefined, '127.0.0.1', good.port);
    dns.script('rebinding.test', [['127.0.0.2'], ['127.0.0.1']]);
    const fetcher = guard({ addresses: { allowedInternal: ['127.0.0.2'] } });
    const url = `http://rebinding.test:${good.port}/`;
    expect((await fetcher.fetch(url, JSON_TYPE)).status).to.equal(200);
    expect(await reasonOf(fetcher.fetch(url, JSON_TYPE))).to.equal('unreachable');
    expect([good.requests.length, inner.requests.length]).to.deep.equal([1, 0]);
  });

  it('reaches an internal address that the operator has listed, and no other', async () => {
    const { port } = await serve();
    dns.set('idp.test', ['127.0.0.1']);
    dns.set('other.test', ['127.0.0.3']);
    const fetcher = guard({ addresses: { allowedInternal: ['127.0.0.1'] } });
    const response = await fetcher.fetch(`http://idp.test:${port}/`, JSON_TYPE);
    expect(await response.json()).to.deep.equal({ ok: true });
    expect(await reasonOf(fetcher.fetch(`http://other.test:${port}/`))).to.equal('unreachable');
  });

  it('refuses URLs by their text: other schemes, credentials, ports of other protocols, too long ones', async () => {
    const fetcher = new GuardedFetch({ addresses: {}, log });
    const urls = [
      'http://idp.test/',
      'file:///etc/passwd',
      'gopher://idp.test/',
      'ftp://idp.test/',
      'data:application/json,{}',
      'https://user:secret@idp.test/',
      'https://user@idp.test/',
      'https://idp.test:25/',
      'https://idp.test:22/',
      'https://idp.test:6667/',
      'https://idp.test:0/',
      'https://idp.test:99999/',
      'https://',
      '/relative',
      '',
      `https://idp.test/${'a'.repeat(2100)}`,
    ];
    for (const url of urls) expect(await reasonOf(fetcher.fetch(url)), url).to.equal('url_refused');
  });

  describe('over TLS', () => {
    const url = (port: number, host = 'idp.test') => `https://${host}:${port}/`;

    before(() => {
      dns.set('idp.test', ['127.0.0.1']);
      dns.set('other.test', ['127.0.0.1']);
    });

    it('takes a certificate that is right for the name', async () => {
      const port = await serveTls();
      const response = await guard({ testing: { ca: pem('authority.pem') } }).fetch(url(port), JSON_TYPE);
      expect(await response.json()).to.deep.equal({ ok: true });
    });

    it('refuses one of another name or of an unknown authority, whatever the environment says', async () => {
      const port = await serveTls();
      const proxy = await serve();
      const names = [
        'NODE_TLS_REJECT_UNAUTHORIZED',
        'HTTPS_PROXY',
        'https_proxy',
        'NODE_USE_ENV_PROXY',
      ] as const;
      const before = names.map((name) => process.env[name]);
      const proxyUrl = `http://127.0.0.1:${proxy.port}`;
      try {
        for (const [i, value] of ['0', proxyUrl, proxyUrl, '1'].entries()) {
          process.env[names[i] ?? ''] = value;
        }
        const trusting = guard({ testing: { ca: pem('authority.pem') } });
        await failureOf(trusting.fetch(url(port, 'other.test')));
        await failureOf(guard().fetch(url(port)));
        expect((await trusting.fetch(url(port), JSON_TYPE)).status).to.equal(200);
      } finally {
        for (const [i, name] of names.entries()) {
          const value = before[i];
          if (value === undefined) delete process.env[name];
          else process.env[name] = value;
        }
      }
      expect(proxy.requests).to.have.length(0);
      expect(JSON.stringify(lines)).to.contain('ERR_TLS_CERT_ALTNAME_INVALID');
    });

    it('never follows a redirect to plain HTTP', async () => {
      const plain = await serve();
      const port = await serveTls((_request, response) => {
        response.writeHead(302, { location: `http://127.0.0.1:${plain.port}/` }).end();
      });
      const fetcher = guard({ testing: { ca: pem('authority.pem') } });
      expect(await reasonOf(fetcher.fetch(url(port), { maxRedirects: 3 }))).to.equal('redirected');
      expect(plain.requests).to.have.length(0);
    });
  });

  describe('with redirects', () => {
    const redirecting = (to: string | ((request: http.IncomingMessage) => string)) =>
      serve((request, response) => {
        const location = typeof to === 'string' ? to : to(request);
        response.writeHead(302, { location }).end();
      });

    it('follows none unless it is asked to', async () => {
      const target = await serve();
      const { port } = await redirecting(`http://127.0.0.1:${target.port}/`);
      expect(await reasonOf(guard().fetch(`http://127.0.0.1:${port}/`))).to.equal('redirected');
      expect(target.requests).to.have.length(0);
    });

    it('checks each of them like the first URL', async () => {
      const metadata = 'http://169.254.169.254/latest/meta-data/';
      const inner = await redirecting(metadata);
      const middle = await redirecting(`http://127.0.0.1:${inner.port}/`);
      const scheme = await redirecting('file:///etc/passwd');
      const credentials = await redirecting(`http://a:b@127.0.0.1:${inner.port}/`);
      const get = (port: number) => guard().fetch(`http://127.0.0.1:${port}/`, { maxRedirects: 5 });
      expect(await reasonOf(get(middle.port))).to.equal('unreachable');
      expect(await reasonOf(get(scheme.port))).to.equal('url_refused');
      expect(await reasonOf(get(credentials.port))).to.equal('url_refused');
      expect(inner.requests).to.have.length(1);
    });

    it('ends a chain that is longer than allowed', async () => {
      const { port, requests } = await redirecting(({ url }) => `${url ?? ''}a`);
      const answer = guard().fetch(`http://127.0.0.1:${port}/`, { maxRedirects: 3 });
      expect(await reasonOf(answer)).to.equal('redirected');
      expect(requests.map(({ url }) => url)).to.deep.equal(['/', '/a', '/aa', '/aaa']);
    });

    it('keeps headers of the caller from another origin', async () => {
      const target = await serve();
      const { port, requests } = await redirecting(`http://127.0.0.1:${target.port}/`);
      const headers = { authorization: 'Bearer secret', 'x-key': 'secret' };
      await guard().fetch(`http://127.0.0.1:${port}/`, { headers, maxRedirects: 1 });
      expect(requests[0]?.headers).to.include(headers);
      expect(target.requests[0]?.headers).to.not.have.any.keys('authorization', 'x-key');
    });

    it('never sends a body a second time', async () => {
      const target = await serve();
      const { port } = await redirecting(`http://127.0.0.1:${target.port}/`);
      const answer = guard().fetch(`http://127.0.0.1:${port}/`, {
        method: 'POST',
        body: 'x',
        maxRedirects: 3,
      });
      expect(await reasonOf(answer)).to.equal('redirected');
      expect(target.requests).to.have.length(0);
    });
  });

  describe('bounds an answer', () => {
    const answer = async (handler: http.RequestListener, request = {}): Promise<string> => {
      const { port } = await serve(handler);
      const fetcher = guard({ limits: { headersMs: 200, totalMs: 400 } });
      return reasonOf(
        fetcher.fetch(`http://127.0.0.1:${port}/`, { ...JSON_TYPE, maxBytes: 1000, ...request }),
      );
    };
    const type = { 'content-type': 'application/json' };

    it('of which the length is announced, without reading it', async () => {
      const reason = await answer((_request, response) => {
        response.writeHead(200, { ...type, 'content-length': 10_000_000 }).flushHeaders();
      });
      expect(reason).to.equal('too_large');
    });

    it('that never ends', async () => {
      const reason = await answer((_request, response) => {
        response.writeHead(200, type);
        void pipeline(endless(), response).catch(() => undefined);
      });
      expect(reason).to.equal('too_large');
    });

    it('that would unpack to much more', async () => {
      const bomb = gzipSync(Buffer.alloc(1 << 20));
      const reason = await answer(
        (_request, response) => {
          response.writeHead(200, { ...type, 'content-encoding': 'gzip' }).end(bomb);
        },
        { maxBytes: 1 << 20 },
      );
      expect(reason).to.equal('invalid_response');
    });

    it('whose headers never come', async () => {
      expect(await answer(() => undefined, { limits: { headersMs: 200 } })).to.equal('timed_out');
    });

    it('whose body comes byte by byte', async () => {
      const drip: http.RequestListener = (_request, response) => {
        response.writeHead(200, type);
        const timer = setInterval(() => response.write(' '), 20);
        response.on('close', () => clearInterval(timer));
      };
      const reason = await answer(drip, { limits: { totalMs: 400 }, maxBytes: 1 << 20 });
      expect(reason).to.equal('timed_out');
    });

    it('with headers beyond 16 KiB', async () => {
      const reason = await answer((_request, response) => {
        response.writeHead(200, { ...type, 'x-long': 'a'.repeat(17_000) }).end('{}');
      });
      expect(reason).to.equal('invalid_response');
    });

    it('of another type than the caller reads', async () => {
      const reason = await answer((_request, response) => {
        response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Sign in</h1>');
      });
      expect(reason).to.equal('unexpected_type');
    });

    it('that breaks off, switches protocols or is no HTTP', async () => {
      expect(
        await answer((_request, response) => {
          response.writeHead(200, { ...type, 'content-length': 100 }).write('{', () => response.destroy());
        }),
      ).to.equal('invalid_response');
      expect(
        await answer(({ socket }) => {
          socket.end('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n');
        }),
      ).to.equal('invalid_response');
      expect(await answer(({ socket }) => void socket.end('220 mail.example.com ESMTP\r\n'))).to.equal(
        'invalid_response',
      );
    });
  });

  it('gives an error status with its body if the type is known, and without it elsewhere', async () => {
    const { port } = await serve(({ url }, response) => {
      if (url === '/json') json(response, { error: 'invalid_grant' }, 400);
      else response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>inner details</h1>');
    });
    const known = await guard().fetch(`http://127.0.0.1:${port}/json`, JSON_TYPE);
    expect([known.status, await known.json()]).to.deep.equal([400, { error: 'invalid_grant' }]);
    const other = await guard().fetch(`http://127.0.0.1:${port}/html`, JSON_TYPE);
    expect([other.status, await other.text()]).to.deep.equal([502, '']);
  });

  it('sends method, body and headers, and does not read an answer that was not asked for', async () => {
    let received = '';
    const { port, requests } = await serve((request, response) => {
      request.on('data', (piece: Buffer) => (received += piece.toString('utf8')));
      request.on('end', () => json(response, { secret: true }));
    });
    const response = await guard().fetch(`http://127.0.0.1:${port}/hook?a=b#c`, {
      method: 'POST',
      body: '{"é":1}',
      headers: { 'content-type': 'application/json' },
    });
    expect([response.status, await response.text(), received]).to.deep.equal([200, '', '{"é":1}']);
    expect(requests[0]).to.include({ method: 'POST', url: '/hook?a=b' });
    expect(requests[0]?.headers).to.include({ 'accept-encoding': 'identity', 'user-agent': 'Muster' });
  });

  describe('keeps a connection', () => {
    /** How many connections a server got for some requests, one after the other. */
    async function connectionsFor(
      requests: readonly object[],
      handler?: http.RequestListener,
    ): Promise<number> {
      const server = http.createServer(handler ?? ((_request, response) => json(response, { ok: true })));
      let connections = 0;
      server.on('connection', () => void connections++);
      const port = await listen(server);
      const fetcher = guard();
      for (const request of requests) {
        const answer = await fetcher.fetch(`http://127.0.0.1:${port}/`, { ...JSON_TYPE, ...request });
        expect(await answer.json()).to.deep.equal({ ok: true });
        await setImmediate();
      }
      return connections;
    }

    it('for one owner, and for nobody else', async () => {
      expect(
        await connectionsFor([{ keepFor: 'a' }, { keepFor: 'a' }, { keepFor: 'a', method: 'POST' }]),
      ).to.equal(1);
      expect(await connectionsFor([{ keepFor: 'a' }, { keepFor: 'b' }, { keepFor: 'a' }])).to.equal(2);
      expect(await connectionsFor([{}, {}])).to.equal(2);
      expect(await connectionsFor([{ keepFor: 'a' }, {}])).to.equal(2);
    });

    it('of which the body was read, and no other', async () => {
      const port = await listen(http.createServer((_request, response) => response.end('x'.repeat(100_000))));
      const fetcher = guard();
      for (let times = 0; times < 3; times++) {
        const answer = await fetcher.fetch(`http://127.0.0.1:${port}/`, { keepFor: 'a' });
        expect(answer.body).to.equal(null);
      }
    });

    it('and makes another one if the other side has closed it meanwhile', async () => {
      let count = 0;
      const closing: http.RequestListener = (request, response) => {
        count += 1;
        // The second request on a connection finds it closed.
        if (count === 2) request.socket.destroy();
        else json(response, { ok: true });
      };
      expect(await connectionsFor([{ keepFor: 'a' }, { keepFor: 'a' }], closing)).to.equal(2);
      expect(count).to.equal(3);
    });

    it('and sends nothing again if the other side has answered with nonsense', async () => {
      let count = 0;
      const port = await listen(
        http.createServer((request, response) => {
          count += 1;
          if (count === 1) json(response, { ok: true });
          else request.socket.end('nonsense\r\n\r\n');
        }),
      );
      const fetcher = guard();
      const send = () =>
        fetcher.fetch(`http://127.0.0.1:${port}/`, { ...JSON_TYPE, keepFor: 'a', method: 'POST' });
      await (await send()).json();
      await setImmediate();
      expect(await reasonOf(send())).to.equal('invalid_response');
      expect(count).to.equal(2);
    });
  });

  it('ends with the reason of the caller when the caller gives up', async () => {
    const given = new AbortController();
    const { port } = await serve(() => given.abort(new Error('no longer needed')));
    const answer = guard().fetch(`http://127.0.0.1:${port}/`, { signal: given.signal });
    expect(await answer.catch((error: unknown) => error)).to.equal(given.signal.reason);
  });

  it('does not wait for a name server that is silent', async () => {
    dns.silent(true);
    try {
      const fetcher = guard({ limits: { connectMs: 100 } });
      expect(await reasonOf(fetcher.fetch('http://idp.test/'))).to.equal('unreachable');
    } finally {
      dns.silent(false);
    }
  });

  it('logs the host of what failed, never the path, which may be a secret', async () => {
    await failureOf(guard({ addresses: {} }).fetch('https://127.0.0.1:9443/services/T0/s3cr3t?token=s3cr3t'));
    expect(lines[0]).to.include({ event: 'outbound.failed', host: '127.0.0.1:9443', reason: 'unreachable' });
    expect(JSON.stringify(lines)).to.not.contain('s3cr3t');
  });
});

async function* endless(): AsyncGenerator<Buffer> {
  for (;;) {
    // Lets the other end of the connection, in this same process, take its turn.
    await setImmediate();
    yield Buffer.alloc(4096, 32);
  }
}

function json(response: http.ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body));
}
