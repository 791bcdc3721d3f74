import { expect } from 'chai';
import express from 'express';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { addressList, type ProxyTrust } from '../../../src/platform/http/client-address.ts';
import { errorHandler } from '../../../src/platform/http/error-body.ts';
import { createHttpServer } from '../../../src/platform/http/http-server.ts';
import { metricsRoute } from '../../../src/platform/http/operations.ts';
import { AppError, type ErrorCode } from '../../../src/platform/errors.ts';
import { beginRequest } from '../../../src/platform/http/request-state.ts';
import { createMetrics } from '../../../src/platform/metrics.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../support/factories.ts';
import { connectDevice, Refused } from '../../support/fake-device.ts';
import { quietLog } from '../../support/quiet-log.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { call, createTestApp, type TestApp } from '../../support/test-app.ts';
import { asOwner, createTestDatabase } from '../../support/test-postgres.ts';

interface AskOptions {
  headers?: Record<string, string>;
  trust?: ProxyTrust;
}

describe('the HTTP server', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });
  after(async () => app.close());
  const get = (path: string, token?: string) => call(`${app.url}${path}`, 'GET', { token });

  describe('health', () => {
    for (const base of ['', '/api/v1']) {
      it(`answers to everyone at ${base}/health, and says no more than it should`, async () => {
        const health = await get(`${base}/health`);
        expect(health.status).to.equal(200);
        expect(Object.keys(health.body)).to.have.members(['status', 'version', 'uptime']);
        expect(health.body).to.include({ status: 'ok' });
        expect(health.body.version).to.match(/^\d+\.\d+\.\d+/);
        expect(health.body.uptime).to.be.within(0, 600);

        const live = await get(`${base}/health/live`);
        expect([live.status, live.body]).to.deep.equal([200, { status: 'ok' }]);

        const ready = await get(`${base}/health/ready`);
        expect(ready.status).to.equal(200);
        expect(ready.body).to.deep.equal({
          status: 'ready',
          checks: { database: 'ok', redis: 'not_configured', migrations: 'ok', isolation: 'ok', jobs: 'ok' },
        });
      });
    }

    it('is not ready while migrations are missing, or the serving role is not safe', async () => {
      const other = await createTestApp();
      try {
        await asOwner(other.database.ownerUrl, 'create table left_open (id uuid)');
        const unsafe = await call(`${other.url}/health/ready`, 'GET');
        expect([unsafe.status, unsafe.body.checks]).to.deep.equal([
          503,
          { database: 'ok', redis: 'not_configured', migrations: 'ok', isolation: 'failed', jobs: 'ok' },
        ]);
        await asOwner(
          other.database.ownerUrl,
          'drop table left_open; delete from muster_migration_checksums',
        );
        const behind = await eventually(
          () => call(`${other.url}/health/ready`, 'GET'),
          ({ body }) => body.checks.isolation === 'ok',
        );
        expect([behind.status, behind.body.checks.migrations]).to.deep.equal([503, 'failed']);
        expect((await call(`${other.url}/health/live`, 'GET')).status).to.equal(200);
      } finally {
        await other.close();
      }
    });

    it('is not ready while the server drains, though it still finishes what it began', async () => {
      const other = await createTestApp();
      const own = await buildTenant(other);
      const { deviceId, token } = await buildDevice(other, own.orgId);
      const agent = await connectDevice(other, token);
      const answering = other.call('GET', `/devices/${deviceId}/eventlogs/live`, { token: own.admin.token });
      const frame = await agent.nextCommand();
      const closing = other.close();
      const ready = await eventually(
        () => call(`${other.url}/health/ready`, 'GET'),
        ({ status }) => status === 503,
      );
      expect(ready.body.status).to.equal('not_ready');
      expect(ready.body.checks).to.deep.equal({
        database: 'ok',
        redis: 'not_configured',
        migrations: 'ok',
        isolation: 'ok',
        jobs: 'ok',
      });
      const refused: unknown = await connectDevice(other, token).catch((error: unknown) => error);
      expect(refused).to.be.instanceOf(Refused);
      expect((refused as Refused).refusal).to.deep.equal({ code: 'DRAINING', retryAfterMs: 5000 });

      await agent.succeed(frame, { logs: [] });
      expect((await answering).status).to.equal(200);
      await closing;
      expect(agent.notices.map(({ reason }) => reason)).to.deep.equal(['draining']);
    });

    it('is not ready while the database is away, answers 503 instead of a fault, and recovers by itself', async () => {
      const database = await createTestDatabase();
      const url = new URL(database.appUrl);
      const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
      url.port = String(proxy.port);
      const other = await createTestApp({ database: { ...database, appUrl: url.href } });
      try {
        const own = await buildTenant(other);
        const { token } = own.admin;
        expect((await other.call('GET', '/devices', { token })).status).to.equal(200);
        await proxy.cut();
        const away = await eventually(
          () => call(`${other.url}/health/ready`, 'GET'),
          ({ status }) => status === 503,
        );
        expect(away.body.checks.database).to.equal('failed');
        for (let i = 0; i < 3; i++) {
          const answer = await other.call('GET', '/devices', { token });
          expect([answer.status, answer.body.code]).to.deep.equal([503, 'UNAVAILABLE']);
          expect(answer.headers.get('retry-after')).to.equal('1');
          expect(JSON.stringify(answer.body)).to.not.match(/ECONN|127\.0\.0\.1|terminat/i);
        }
        expect((await call(`${other.url}/health/live`, 'GET')).status).to.equal(200);

        await proxy.mend();
        await eventually(
          () => call(`${other.url}/health/ready`, 'GET'),
          ({ status }) => status === 200,
        );
        expect((await other.call('GET', '/devices', { token })).status).to.equal(200);
      } finally {
        await other.close();
        await proxy.cut();
        await database.drop();
      }
    });
  });

  describe('metrics', () => {
    it('count by route pattern and status, and show the live side, the pool and the event loop', async () => {
      const { token } = tenant.admin;
      const agent = await connectDevice(app, device.token);
      const answering = app.call('GET', `/devices/${device.deviceId}/eventlogs/live`, { token });
      await agent.succeed(await agent.nextCommand(), { logs: [] });
      expect((await answering).status).to.equal(200);
      await get(`/api/v1/devices/${device.deviceId}`, token);
      await get('/api/v1/devices/not-a-uuid', token);
      await get('/api/v1/no-such-route-1234');
      await get('/no-such-place-5678?secret=9');

      const { status, headers, body } = await get('/metrics');
      agent.close();
      expect(status).to.equal(200);
      expect(headers.get('content-type')).to.include('text/plain');
      for (const line of [
        /^http_requests_total\{method="GET",route="\/devices\/:id",status="200"\} \d+$/m,
        /^http_requests_total\{method="GET",route="\/devices\/:id",status="404"\} 1$/m,
        /^http_requests_total\{method="GET",route="unmatched",status="404"\} \d+$/m,
        /^http_request_duration_seconds_count\{method="GET",route="\/devices\/:id"\} \d+$/m,
        /^nodejs_eventloop_lag_p99_seconds [\d.e-]+$/m,
        /^muster_connected_agents 1$/m,
        /^muster_mailbox_depth 0$/m,
        /^muster_presence_unwritten \d+$/m,
        /^muster_dashboard_subscriptions 0$/m,
        /^muster_live_queries_total\{type="eventlogs.list",outcome="answered"\} 1$/m,
        /^muster_live_query_seconds_count\{type="eventlogs.list"\} 1$/m,
        /^muster_database_connections\{state="(used|free|waiting)"\} \d+$/m,
        /^muster_database_hub_connections\{state="used"\} \d+$/m,
      ]) {
        expect(body).to.match(line);
      }
      for (const raw of [device.deviceId, 'not-a-uuid', 'no-such-route', 'no-such-place', 'secret']) {
        expect(body).to.not.include(raw);
      }
    });

    it('are for loopback, and elsewhere with the token only', async () => {
      const ask = async (
        token: string | undefined,
        from: string,
        bearer?: string,
        { headers = {}, trust = { proxies: undefined, cfConnectingIp: false } }: AskOptions = {},
      ) => {
        const metrics = createMetrics();
        const web = express();
        web.use((request, _response, next) => {
          Object.defineProperty(request.socket, 'remoteAddress', { value: from, configurable: true });
          next();
        });
        web.use(beginRequest(quietLog, metrics, trust), metricsRoute(metrics, token, trust), errorHandler);
        const server = createServer(web);
        await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
        try {
          const { port } = server.address() as AddressInfo;
          const sent = { connection: 'close', ...headers };
          return (await call(`http://127.0.0.1:${port}/metrics`, 'GET', { token: bearer, headers: sent }))
            .status;
        } finally {
          server.close();
        }
      };
      const token = 'a-token-of-enough-characters';
      for (const local of ['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1']) {
        expect(await ask(undefined, local), local).to.equal(200);
      }
      for (const elsewhere of ['203.0.113.7', '::ffff:203.0.113.7', '2001:db8::1', '10.127.0.1']) {
        expect(await ask(undefined, elsewhere), elsewhere).to.equal(403);
        expect(await ask(undefined, elsewhere, 'undefined'), elsewhere).to.equal(403);
        expect(await ask(token, elsewhere), elsewhere).to.equal(403);
        expect(await ask(token, elsewhere, `${token}x`), elsewhere).to.equal(403);
        expect(await ask(token, elsewhere, token), elsewhere).to.equal(200);
      }
      // Behind a proxy on the same machine everybody seems to come from loopback.
      for (const name of [
        'X-Forwarded-For',
        'X-Real-IP',
        'Forwarded',
        'Via',
        'CF-Connecting-IP',
        'X-Forwarded-Proto',
      ]) {
        const headers = { [name]: '127.0.0.1' };
        expect(await ask(undefined, '127.0.0.1', undefined, { headers }), name).to.equal(403);
        expect(await ask(token, '127.0.0.1', token, { headers }), name).to.equal(200);
      }
      const trust = { proxies: addressList(['127.0.0.1']), cfConnectingIp: false };
      expect(await ask(token, '127.0.0.1', undefined, { trust })).to.equal(403);
      expect(await ask(token, '127.0.0.1', token, { trust })).to.equal(200);
      expect(await ask(undefined, '127.0.0.2', undefined, { trust })).to.equal(200);
    });
  });

  describe('the reference pages', () => {
    for (const page of ['/docs', '/docs/sockets']) {
      it(`${page} needs nothing from elsewhere, and nothing that its own policy forbids`, async () => {
        const { status, headers, body } = await get(page);
        expect(status).to.equal(200);
        expect(headers.get('content-type')).to.match(/^text\/html/);
        const policy = headers.get('content-security-policy') ?? '';
        expect(policy).to.include("default-src 'self'").and.not.include('unsafe-eval');
        expect(policy).to.not.match(/script-src[^;]*unsafe-inline|https?:/);
        // The policy lets no inline script run, so there must be none.
        expect(body).to.not.match(/<script(?![^>]*\ssrc=)[^>]*>/);
        expect(body).to.not.match(/\son\w+=/);

        const assets = [...body.matchAll(/\s(?:src|href)="([^"]*)"/g)].map((match) => match[1] ?? '');
        expect(assets.length).to.be.greaterThan(1);
        for (const asset of assets) {
          expect(asset).to.match(/^\/(?!\/)/);
          const answer = await get(asset);
          expect(answer.status, asset).to.equal(200);
          if (asset.endsWith('.css')) expect(answer.body).to.not.match(/url\(["']?(https?:)?\/\//);
        }
      });
    }

    it('start from the document that the server gives, which is OpenAPI 3.1', async () => {
      const start = await get('/docs/start.js');
      expect(start.headers.get('content-type')).to.include('javascript');
      const url = /"url":"([^"]+)"/.exec(start.body)?.[1] ?? '';
      const document = await get(url);
      expect(document.body.openapi).to.match(/^3\.1/);
      expect(Object.keys(document.body.paths)).to.include('/devices/{id}');
    });

    it('name every socket event, and serve no file beside the assets', async () => {
      const { body } = await get('/docs/sockets');
      for (const event of [
        'heartbeat',
        'command:result',
        'hub:reconnect',
        'devices:subscribe',
        'devices:delta',
      ]) {
        expect(body).to.include(`id="${event}"`);
      }
      for (const path of [
        '/docs/assets/',
        '/docs/assets/..%2f..%2fpackage.json',
        '/docs/assets/nothing.js',
      ]) {
        expect((await get(path)).status, path).to.be.oneOf([403, 404]);
      }
    });
  });

  it('makes its documents once, and sends them again only to clients that have another', async () => {
    for (const path of [
      '/api/v1/openapi.json',
      '/docs',
      '/docs/sockets',
      '/docs/start.js',
      '/docs/sockets.js',
      '/docs/assets/swagger-ui.css',
    ]) {
      const ask = (encoding: 'identity' | 'gzip', headers: Record<string, string> = {}, method = 'GET') =>
        fetch(`${app.url}${path}`, { method, headers: { 'Accept-Encoding': encoding, ...headers } });
      const whole = await ask('identity');
      const bytes = Buffer.from(await whole.arrayBuffer());
      const packed = await ask('gzip');
      expect(Buffer.from(await packed.arrayBuffer()).equals(bytes), path).to.equal(true);
      expect(packed.headers.get('content-encoding'), path).to.equal('gzip');
      expect(Number(packed.headers.get('content-length')), path).to.be.lessThan(bytes.length);
      expect(packed.headers.get('etag'), path).not.to.equal(whole.headers.get('etag'));
      for (const [encoding, first] of [
        ['identity', whole],
        ['gzip', packed],
      ] as const) {
        const tag = first.headers.get('etag') ?? '';
        const length = encoding === 'gzip' ? packed.headers.get('content-length') : String(bytes.length);
        expect([first.status, first.headers.get('content-length')], path).to.deep.equal([200, length]);
        expect(first.headers.get('cache-control'), path).to.match(/^(no-cache|public, max-age=3600)$/);
        expect(first.headers.get('vary'), path).to.contain('Accept-Encoding');
        for (const known of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
          const again = await ask(encoding, { 'If-None-Match': known });
          expect(
            [again.status, (await again.arrayBuffer()).byteLength, again.headers.get('etag')],
            path,
          ).to.deep.equal([304, 0, tag]);
        }
        const other = await ask(encoding, { 'If-None-Match': '"other"' });
        expect(Buffer.from(await other.arrayBuffer()).equals(bytes), path).to.equal(true);
        const head = await ask(encoding, {}, 'HEAD');
        expect([head.status, head.headers.get('content-length')], path).to.deep.equal([200, length]);
      }
    }
  });

  it('says nothing of what it is made of, and forbids what browsers should not do', async () => {
    for (const path of ['/health', '/api/v1/devices', '/nowhere']) {
      const { headers } = await get(path);
      expect(headers.get('x-powered-by'), path).to.equal(null);
      expect(headers.get('server'), path).to.equal(null);
      expect(headers.get('content-security-policy'), path).to.include("frame-ancestors 'none'");
      expect(headers.get('x-content-type-options'), path).to.equal('nosniff');
      expect(headers.get('x-request-id'), path).to.match(/^[\w-]{36}$/);
    }
  });

  it('lets nothing be kept that it answers, but for the files of the reference pages', async () => {
    const { token } = tenant.admin;
    for (const path of [
      '/api/v1/devices',
      '/api/v1/orgs/sites',
      '/api/v1/auth/me',
      '/api/v1/nowhere',
      '/api/v1/health',
      '/health/ready',
      '/metrics',
    ]) {
      for (const given of [token, undefined]) {
        expect((await get(path, given)).headers.get('cache-control'), path).to.equal('no-store');
      }
    }
    const csv = await app.call('POST', '/audit-logs/export', { token, body: { format: 'csv' } });
    expect([csv.status, csv.headers.get('cache-control')]).to.deep.equal([200, 'no-store']);
    const asset = await get('/docs/assets/swagger-ui.css');
    expect(asset.headers.get('cache-control')).to.include('max-age');
  });

  describe('to what is no request', () => {
    /** Sends bytes as they are; answers what came back until the connection ended. */
    const exchange = (port: number, ...parts: string[]) =>
      new Promise<string>((resolve, reject) => {
        let answer = '';
        const socket = connect(port, '127.0.0.1', () => {
          for (const part of parts) socket.write(part);
        });
        socket.on('data', (data) => (answer += data.toString()));
        socket.on('close', () => resolve(answer));
        socket.on('error', reject);
      });
    const bodyOf = (answer: string) =>
      JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)) as Record<string, unknown>;

    it('answers with the error body', async () => {
      const port = Number(new URL(app.url).port);
      const garbage = await exchange(port, 'this is no HTTP\r\n\r\n');
      expect(garbage).to.match(/^HTTP\/1\.1 400 /);
      expect(bodyOf(garbage))
        .to.include({ code: 'VALIDATION_FAILED' })
        .and.include.keys('error', 'requestId');
      const large = await exchange(
        port,
        `GET /health HTTP/1.1\r\nHost: x\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`,
      );
      expect(large).to.match(/^HTTP\/1\.1 431 /);
      expect(bodyOf(large)).to.include({ code: 'HEADERS_TOO_LARGE' }).and.include.keys('error', 'requestId');
    });

    it('does not wait for ever for the rest of it', async () => {
      const server = createHttpServer({ headersMs: 100, requestMs: 200, checkEveryMs: 50 });
      server.on('request', () => {});
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      try {
        const { port } = server.address() as AddressInfo;
        for (const part of [
          'GET / HTTP/1.1\r\nHost:',
          'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{',
        ]) {
          const late = await exchange(port, part);
          expect(late, part).to.match(/^HTTP\/1\.1 408 /);
          expect(bodyOf(late)).to.include({ code: 'REQUEST_TIMEOUT' });
        }
      } finally {
        server.close();
      }
    });
  });

  it('says when to come back with each 429 and 503', async () => {
    const web = express();
    web.use(beginRequest(quietLog, createMetrics(), { proxies: undefined, cfConnectingIp: false }));
    web.get('/:code', ({ params, query }) => {
      const retryAfterMs = query['ms'] === undefined ? {} : { retryAfterMs: Number(query['ms']) };
      throw new AppError(params['code'] as ErrorCode, 'No.', retryAfterMs);
    });
    web.use(errorHandler);
    const server = createServer(web);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = server.address() as AddressInfo;
      for (const [path, expected] of [
        ['rate_limited?ms=1500', '2'],
        ['rate_limited?ms=0', '1'],
        ['device_busy', '1'],
        ['unavailable', '1'],
        ['conflict', null],
      ] as const) {
        const { headers } = await call(`http://127.0.0.1:${port}/${path}`, 'GET');
        expect(headers.get('retry-after'), path).to.equal(expected);
      }
    } finally {
      server.close();
    }
  });

  it('takes a request id from outside only in a harmless form', async () => {
    const ask = async (id: string) =>
      (await call(`${app.url}/health`, 'GET', { headers: { 'x-request-id': id } })).headers.get(
        'x-request-id',
      );
    expect(await ask('trace-1:2.3')).to.equal('trace-1:2.3');
    for (const bad of ['a b', '<script>', 'x'.repeat(101)]) {
      expect(await ask(bad)).to.match(/^[0-9a-f-]{36}$/);
    }
  });

  it('answers an internal error with a request id and nothing else; the rest is in the log', async () => {
    const broken = await createTestApp();
    try {
      const own = await buildTenant(broken);
      await asOwner(broken.database.ownerUrl, 'drop table device_presence cascade');
      const answer = await broken.call('GET', '/devices', {
        token: own.admin.token,
        headers: { 'x-request-id': 'trace-42' },
      });
      expect(answer.status).to.equal(500);
      expect(answer.body).to.deep.equal({
        error: 'Something went wrong on the server.',
        code: 'INTERNAL',
        requestId: 'trace-42',
      });
      expect(answer.headers.get('x-request-id')).to.equal('trace-42');
      const line = broken.log.find(({ event }) => event === 'http.failed');
      expect(line).to.include({
        level: 'error',
        requestId: 'trace-42',
        method: 'GET',
        path: '/api/v1/devices',
      });
      const err = line?.['err'] as { message: string; stack: string };
      expect(err.message).to.include('device_presence');
      expect(err.stack).to.match(/\n\s+at /);
    } finally {
      await broken.close();
    }
  });
});
