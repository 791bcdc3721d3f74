import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { expect } from 'chai';
import { build } from 'esbuild';
import { Server, type Socket } from 'socket.io';
import {
  type ClientOptions,
  connectLive,
  createClient,
  type Live,
  MusterError,
  newIdempotencyKey,
} from '../../../clients/typescript/src/index.ts';
import { waitIn } from '../../../clients/typescript/src/rest/answer.ts';
import { Channel } from '../../../clients/typescript/src/live/channel.ts';
import { DASHBOARD_NAMESPACE, HUB_PATH } from '../../../src/protocol/index.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';
import { summary } from '../../support/feed-client.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

const CLIENT = path.join(import.meta.dirname, '../../../clients/typescript');

const entry = (recordId: number) => ({
  recordId,
  timeCreated: '2026-11-20T10:00:00.000Z',
  level: 'error',
  source: 'disk',
  eventId: 7,
  message: `Entry ${recordId}`,
  category: 'System',
  user: null,
  computer: 'PC-1',
});

/** What the work is refused with. */
async function refusal(work: Promise<unknown>): Promise<MusterError> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).to.be.instanceOf(MusterError);
  return error as MusterError;
}

describe('the TypeScript client', function () {
  this.timeout(60_000);
  let app: TestApp;
  let proxy: TcpProxy;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let offline: EnrolledDevice;
  let agent: FakeDevice;
  let key: string;
  let live: Live;

  before(async () => {
    app = await createTestApp();
    proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(app.url).port) });
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId, { hostname: 'HOST-A' });
    offline = await buildDevice(app, tenant.orgId, { hostname: 'HOST-B' });
    await buildDevice(app, tenant.orgId, { hostname: 'HOST-C' });
    agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    const made = await app.call('POST', '/api-keys', {
      token: tenant.admin.token,
      body: {
        name: 'Integration',
        scopes: ['devices:read', 'devices:execute', 'scripts:read', 'scripts:execute'],
      },
    });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    key = made.body.key;
    live = await connectLive({ server: `http://127.0.0.1:${proxy.port}`, token: key });
  });
  after(async () => {
    live?.close();
    agent?.close();
    await proxy?.cut();
    await app?.close();
  });

  const muster = (options: Partial<ClientOptions> = {}) =>
    createClient({ server: app.url, token: key, ...options });

  describe('in its examples', () => {
    /** Runs an example as its reader does. */
    const begin = (name: string, ...args: string[]) => {
      const file = path.join(CLIENT, 'examples', `${name}.ts`);
      const child = spawn(process.execPath, ['--import', 'tsx', file, ...args], {
        env: { PATH: process.env['PATH'], MUSTER_URL: app.url, MUSTER_KEY: key },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const texts = { out: '', err: '' };
      child.stdout.setEncoding('utf8').on('data', (text: string) => (texts.out += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => (texts.err += text));
      const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...texts }));
      return { texts, ended };
    };
    const example = (name: string, ...args: string[]) => begin(name, ...args).ended;

    it('lists devices, runs a script and follows it, and reads an event log', async () => {
      const listing = example('list-devices');
      const script = begin('run-script-and-follow', device.deviceId, 'echo hello');
      const run = await agent.nextCommand();
      expect(run.payload).to.include({ content: 'echo hello' });
      // It follows the command from here on; what the device sends before that it does not see.
      await eventually(
        () => script.texts.err,
        (text) => /dispatched|accepted|running/.test(text),
      );
      await agent.rows(run, [{ stream: 'stdout', text: 'hello\n' }]);
      await agent.succeed(run, { exitCode: 0, stdout: 'hello\n', stderr: '', truncated: false });
      const done = await script.ended;
      expect(done.err).to.contain('succeeded');
      expect([done.code, done.out]).to.deep.equal([0, 'hello\n']);

      const reading = example('read-event-log', 'System', device.deviceId, offline.deviceId);
      const query = await agent.nextCommand();
      expect(query.payload).to.deep.include({ name: 'System', level: ['error'], limit: 20 });
      await agent.rows(query, [entry(1), entry(2)]);
      await agent.succeed(query, { scanned: 2, truncated: false });
      const read = await reading;
      expect(read.out.trim().split('\n')).to.have.length(2);
      expect(read.err).to.contain(`${device.deviceId}: answered, 2 entries`);
      expect(read.err).to.contain(`${offline.deviceId}: offline, 0 entries`);
      expect(read.code).to.equal(1);

      const listed = await listing;
      expect(listed.out.split('\n').map((line) => line.split('\t')[0])).to.deep.equal([
        'HOST-A',
        'HOST-B',
        'HOST-C',
        '',
      ]);
    });
  });

  describe('on a real server', () => {
    it('reads lists page by page, and says what the server refuses and why', async () => {
      const names: string[] = [];
      for await (const { hostname } of muster().list('GET /devices', { query: { limit: '1' } })) {
        names.push(hostname);
      }
      expect(names.sort()).to.deep.equal(['HOST-A', 'HOST-B', 'HOST-C']);

      const unknown = await refusal(muster({ token: () => 'nonsense' }).call('GET /devices'));
      expect(unknown).to.include({ status: 401, code: 'UNAUTHENTICATED' });
      expect(unknown.requestId).to.match(/^[0-9a-f-]{36}$/);
      const type = 'script.run' as const;
      const invalid = await refusal(
        muster().call('POST /devices/{id}/commands', {
          params: { id: device.deviceId },
          body: { type, ttlSeconds: -1 },
        }),
      );
      expect(invalid).to.include({ status: 400, code: 'VALIDATION_FAILED' });
      expect(invalid.details).to.be.an('array');
      const stranger = await buildTenant(app);
      const foreign = muster({ token: () => Promise.resolve(stranger.admin.token) });
      expect(
        await refusal(foreign.call('GET /devices/{id}', { params: { id: device.deviceId } })),
      ).to.include({ status: 404, code: 'NOT_FOUND' });
    });

    it('makes one command of one key, however often it is sent', async () => {
      const idempotencyKey = newIdempotencyKey();
      const order = () =>
        muster().call(
          'POST /devices/{id}/commands',
          {
            params: { id: offline.deviceId },
            body: { type: 'agent.refresh-inventory' },
          },
          { idempotencyKey },
        );
      const [one, other] = await Promise.all([order(), order()]);
      expect(one.id).to.equal(other.id);
    });

    it('ends a query on the device when the program leaves its loop, aborts, or closes the connection', async () => {
      const query = { deviceIds: [device.deviceId], name: 'System' };
      const isCancelled = (id: string) =>
        eventually(
          () => agent.cancelled,
          (ids) => ids.includes(id),
        );
      const left = (async () => {
        for await (const item of live.queryEventLogs(query)) return item;
        return undefined;
      })();
      const first = await agent.nextCommand();
      await agent.rows(first, [entry(1), entry(2)]);
      expect(await left).to.deep.equal({ type: 'entry', deviceId: device.deviceId, entry: entry(1) });
      await isCancelled(first.id);
      await agent.finish(first, { status: 'cancelled' });

      const reason = new Error('Enough');
      const aborting = new AbortController();
      const aborted = (async () => {
        for await (const _ of live.followEventLog(
          { deviceId: device.deviceId, name: 'System' },
          { signal: aborting.signal },
        ));
      })().catch((error: unknown) => error);
      const second = await agent.nextCommand();
      aborting.abort(reason);
      expect(await aborted).to.equal(reason);
      await isCancelled(second.id);
      await agent.finish(second, { status: 'cancelled' });

      const another = await connectLive({ server: app.url, token: key });
      const closed = refusal(another.queryEventLogs(query).next());
      const third = await agent.nextCommand();
      another.close();
      expect(await closed).to.include({ code: 'CLOSED' });
      await isCancelled(third.id);
      await agent.finish(third, { status: 'cancelled' });
      expect(await refusal(another.devices().next())).to.include({ code: 'CLOSED' });
    });

    it('is refused on the socket as on REST', async () => {
      expect(await refusal(connectLive({ server: app.url, token: 'nonsense' }))).to.include({
        status: 0,
        code: 'UNAUTHENTICATED',
      });
      expect(await refusal(live.followJob(tenant.orgId).next())).to.include({ code: 'NOT_FOUND' });
      const invalid = live.queryEventLogs({ deviceIds: ['nonsense'], name: 'System' });
      expect(await refusal(invalid.next())).to.include({ code: 'VALIDATION_FAILED' });
      const aborting = AbortSignal.abort(new Error('Enough'));
      const given = await connectLive({ server: app.url, token: key, signal: aborting }).catch(String);
      expect(given).to.equal('Error: Enough');
    });

    it('keeps devices and jobs up to date over a lost connection', async () => {
      const devices = live.devices({ orgId: tenant.orgId });
      const status = async (id: string, wanted: string) => {
        for (;;) {
          const { value } = await devices.next();
          if (value?.devices.get(id)?.status === wanted) return value;
        }
      };
      const jobs = live.jobs({ deviceId: offline.deviceId.toUpperCase() });
      const { value: waiting } = await jobs.next();
      expect(waiting).to.include({ kind: 'agent.refresh-inventory', state: 'queued' });
      const before = await status(offline.deviceId, 'offline');
      expect([before.devices.size, before.counts.total, before.complete]).to.deep.equal([3, 3, true]);

      await proxy.cut();
      const query = live.queryEventLogs({ deviceIds: [device.deviceId], name: 'System' });
      expect(await refusal(query.next())).to.include({ code: 'DISCONNECTED' });
      const returned = await connectDevice(app, offline.token);
      await returned.heartbeat();
      await proxy.mend();
      await status(offline.deviceId, 'online');
      const { value: again } = await jobs.next();
      expect(again?.id).to.equal(waiting?.id);
      await Promise.all([devices.return(), jobs.return()]);
      returned.close();
    });
  });

  describe('on a server that is none, or a bad one', () => {
    const servers: { close(): void }[] = [];
    after(() => {
      for (const server of servers) server.close();
    });

    type Answering = (response: ServerResponse, request: IncomingMessage, attempt: number) => unknown;
    const serving = async (answering: Answering, options: Partial<ClientOptions> = {}) => {
      const seen: IncomingMessage[] = [];
      const server = createServer((request, response) => {
        seen.push(request);
        void answering(response, request, seen.length);
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      servers.push({ close: () => (server.closeAllConnections(), server.close()) });
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      return { seen, client: createClient({ server: url, token: 'secret', ...options }) };
    };
    const json = (response: ServerResponse, status: number, body: string, headers = {}) =>
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
    const busy = '{"error":"Busy","code":"UNAVAILABLE","requestId":"r-1"}';

    it('takes no page, redirect, broken or endless answer as the one it asked for', async () => {
      let written = 0;
      const flood = (response: ServerResponse, status: number, type: string) => {
        response.writeHead(status, { 'content-type': type });
        const more = () => {
          while (written++ < 10_240 && response.write('x'.repeat(1024)));
          if (written < 10_240) response.once('drain', more);
          else response.end();
        };
        more();
      };
      const cases: [Answering, Partial<MusterError>, RegExp][] = [
        [
          (r) => r.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hi</h1>'),
          { code: 'UNEXPECTED_ANSWER', status: 200 },
          /text\/html/,
        ],
        [
          (r) => r.writeHead(302, { location: 'https://evil.example' }).end(),
          { code: 'UNEXPECTED_ANSWER', status: 302 },
          /evil/,
        ],
        [(r) => json(r, 200, '[]'), { code: 'UNEXPECTED_ANSWER' }, /not a JSON object/],
        [(r) => json(r, 200, '{"data":'), { code: 'UNEXPECTED_ANSWER' }, /is none/],
        [(r) => json(r, 200, ''), { code: 'UNEXPECTED_ANSWER' }, /is none/],
        [(r) => json(r, 500, '{"code":7}'), { code: 'UNEXPECTED_ANSWER', status: 500 }, /status 500/],
        [
          (r) => flood(r, 200, 'application/json'),
          { code: 'UNEXPECTED_ANSWER' },
          /longer than 1000000 bytes/,
        ],
        [(r) => flood(r, 500, 'application/json'), { code: 'UNEXPECTED_ANSWER', status: 500 }, /status 500/],
        [(r) => flood(r, 200, 'text/html'), { code: 'UNEXPECTED_ANSWER' }, /text\/html/],
        [
          (r) => {
            r.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
            r.write('{"data":[');
            setImmediate(() => r.destroy());
          },
          { code: 'UNREACHABLE', status: 0 },
          /ended the connection/,
        ],
        [() => undefined, { code: 'NO_ANSWER', status: 0 }, /in time/],
      ];
      for (const [answering, expected, message] of cases) {
        written = 0;
        const patient = answering.length > 0;
        const { client } = await serving(answering, {
          maxAnswerBytes: 1_000_000,
          ...(patient ? {} : { timeoutMs: 100 }),
        });
        const error = await refusal(client.call('GET /devices'));
        expect(error, String(answering)).to.include(expected);
        expect(error.message).to.match(message);
        // Of what is too long, most is not even sent.
        expect(written).to.be.lessThan(10_240);
      }
    });

    it('does not page forever, and does not take something else for a list', async () => {
      const page = (no: number) =>
        `{"data":[{"id":"1"}],"pagination":{"page":${no},"limit":1,"total":1000000000}}`;
      const { client, seen } = await serving((response) => json(response, 200, page(1)));
      const items: unknown[] = [];
      const error = await refusal(
        (async () => {
          for await (const item of client.list('GET /devices')) items.push(item);
        })(),
      );
      expect([error.code, items.length, seen.length]).to.deep.equal(['UNEXPECTED_ANSWER', 1, 2]);
      const { client: other } = await serving((response) => json(response, 200, '{"data":{}}'));
      expect(await refusal(other.list('GET /devices').next())).to.include({ code: 'UNEXPECTED_ANSWER' });
    });

    it('waits as long as the server wants before it repeats what may be repeated, and not forever', async () => {
      const soon = { 'retry-after': '0' };
      const twice: Answering = (response, _request, attempt) =>
        attempt < 3 ? json(response, attempt === 1 ? 503 : 429, busy, soon) : json(response, 200, '{}');
      const get = await serving(twice);
      await get.client.call('GET /devices');
      expect(get.seen).to.have.length(3);
      const command = { params: { id: 'x' }, body: { type: 'agent.reboot' as const } };
      const post = await serving(twice);
      const refused = await refusal(post.client.call('POST /devices/{id}/commands', command));
      expect(refused).to.include({ status: 503, code: 'UNAVAILABLE', requestId: 'r-1', retryAfterMs: 0 });
      const keyed = await serving(twice);
      await keyed.client.call('POST /devices/{id}/commands', command, { idempotencyKey: 'k' });
      expect([post.seen.length, keyed.seen.length]).to.deep.equal([1, 3]);
      expect(keyed.seen.map(({ headers }) => headers['idempotency-key'])).to.deep.equal(['k', 'k', 'k']);
      const always = await serving((response) => json(response, 503, busy, soon));
      await refusal(always.client.call('GET /devices'));
      expect(always.seen).to.have.length(5);
      const long = await serving((response) => json(response, 429, busy, { 'retry-after': '3600' }));
      expect(await refusal(long.client.call('GET /devices'))).to.include({ retryAfterMs: 3_600_000 });
      const html = (response: ServerResponse, _request: IncomingMessage, attempt: number) =>
        attempt === 1 ? response.writeHead(503, soon).end('<h1>') : json(response, 200, '{}');
      await (await serving(html)).client.call('GET /devices');
      const aborting = new AbortController();
      const paused = await serving((response) => {
        json(response, 503, busy, { 'retry-after': '30' });
        setImmediate(() => aborting.abort(new Error('Enough')));
      });
      const { signal } = aborting;
      expect(await paused.client.call('GET /devices', {}, { signal }).catch(String)).to.equal(
        'Error: Enough',
      );
      const now = Date.parse('2026-11-20T10:00:00Z');
      expect(waitIn('Fri, 20 Nov 2026 10:00:05 GMT', now)).to.equal(5_000);
      expect([waitIn('-1 day', now), waitIn('soon', now), waitIn(null, now)].at(-1)).to.equal(undefined);
    });

    it('streams a file without reading it, and sends neither key nor request if they do not belong', async () => {
      const { client, seen } = await serving((response) => response.writeHead(200).end('bytes'));
      const response = await client.stream('GET /c2c/items/{id}/content', { params: { id: 'a/../b' } });
      expect(await response.text()).to.equal('bytes');
      expect(seen[0]).to.include({ url: '/api/v1/c2c/items/a%2F..%2Fb/content' });
      for (const id of ['', '.', '..']) {
        const given = await client.call('GET /devices/{id}', { params: { id } }).catch(String);
        expect(given).to.match(/TypeError: .* cannot be the id/);
      }
      expect(seen).to.have.length(1);
      expect(() => createClient({ server: 'http://rmm.example.com', token: 'x' })).to.throw(/https/);
    });

    type Acks = Record<string, (message: never, socket: Socket) => unknown>;
    const hub = async (acks: Acks) => {
      const http = createServer().listen(0, '127.0.0.1');
      await once(http, 'listening');
      const server = new Server(http, { path: HUB_PATH });
      servers.push({ close: () => void server.close() });
      const asked: [string, unknown][] = [];
      const sockets: Socket[] = [];
      server.of(DASHBOARD_NAMESPACE).on('connection', (socket) => {
        sockets.push(socket);
        socket.onAny((event: string, message: unknown, ack: (answer: unknown) => void) => {
          asked.push([event, message]);
          const given = Promise.resolve(acks[event]?.(message as never, socket));
          void given.then((answer) => ack(answer ?? { ok: true }));
        });
      });
      const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
      const connection = await connectLive({ server: url, token: 'secret' });
      servers.push(connection);
      return { asked, sockets, live: connection };
    };
    const id = '019aa000-0000-7000-8000-000000000001';
    const known = { ...summary(id), orgId: id, siteId: id };
    const counts = { total: 1, byStatus: {} };
    const delta = (subscriptionId: string, seq: number, more = {}) => ({
      subscriptionId,
      seq,
      changed: [],
      entered: [],
      left: [],
      counts,
      ...more,
    });

    it('subscribes again after a gap and after the server has ended the connection, and gives up on nonsense', async () => {
      let times = 0;
      const bad = await hub({
        'devices:subscribe': (_message: unknown, socket: Socket) => {
          const subscriptionId = `s${++times}`;
          // The next delta may come before the acknowledgement.
          socket.emit('devices:delta', delta(subscriptionId, 2, { changed: [{ id, displayName: 'Early' }] }));
          return { ok: true, subscriptionId, seq: 1, devices: [known], counts, complete: false };
        },
      });
      const devices = bad.live.devices();
      const next = async () => (await devices.next()).value?.devices.get(id)?.displayName;
      expect(await next()).to.equal('Early');
      bad.sockets[0]?.emit(
        'devices:delta',
        delta('s1', 3, { changed: [{ id, displayName: 'Third' }], complete: true }),
      );
      const third = await devices.next();
      expect(third.value?.complete).to.equal(true);
      expect(third.value?.devices.get(id)).to.deep.include({ displayName: 'Third', hostname: id });
      bad.sockets[0]?.emit('devices:delta', delta('other', 9));
      bad.sockets[0]?.emit('devices:delta', delta('s1', 5, { left: [id] }));
      expect(await next()).to.equal('Early');
      expect(bad.asked.map(([event]) => event)).to.deep.equal([
        'devices:subscribe',
        'devices:unsubscribe',
        'devices:subscribe',
      ]);
      bad.sockets[0]?.disconnect(true);
      expect(await next()).to.equal('Early');
      expect([times, bad.sockets.length]).to.deep.equal([3, 2]);
      bad.sockets[1]?.emit('devices:delta', { subscriptionId: 's3', seq: 3, changed: 'all' });
      expect(await refusal(devices.next())).to.include({ code: 'UNEXPECTED_ANSWER' });
    });

    it('checks what it is sent of queries and jobs, and stops at a server that says nonsense', async () => {
      const job = { id, kind: 'backup', orgId: id, state: 'running', phase: 'running', at: 'now' };
      let queries = 0;
      let startTail = (_answer: object): void => {};
      const bad = await hub({
        'eventlogs:tail': () => new Promise((resolve) => (startTail = resolve)),
        'devices:subscribe': () => ({ ok: true, devices: 'x'.repeat(1_000_000) }),
        'eventlogs:query': () => ({ ok: true, queryId: `q${++queries}` }),
        'jobs:subscribe': () => ({ ok: true, jobs: [job] }),
      });
      const emit = (event: string, message: unknown) => bad.sockets[0]?.emit(event, message);
      expect(await refusal(bad.live.devices().next())).to.include({ code: 'UNEXPECTED_ANSWER' });
      const query = { deviceIds: [id], name: 'System' };
      const [one, other] = [bad.live.queryEventLogs(query), bad.live.queryEventLogs(query)];
      const [failing, reading] = [refusal(one.next()), other.next()];
      await eventually(
        () => queries,
        (count) => count === 2,
      );
      const row = (queryId: string, rows: unknown) => ({ queryId, deviceId: id, rows });
      emit('eventlogs:rows', row('q2', [entry(1)]));
      expect((await reading).value).to.include({ type: 'entry' });
      emit('eventlogs:rows', row('q1', [{ recordId: 'x' }]));
      expect(await failing).to.include({ code: 'UNEXPECTED_ANSWER' });
      emit('eventlogs:end', { queryId: 'q2', outcomes: [{ deviceId: id, outcome: 'answered', rows: 1 }] });
      expect((await other.next()).value).to.include({ type: 'outcome', outcome: 'answered' });
      expect((await other.next()).done).to.equal(true);
      const cancelled = await eventually(
        () => bad.asked.filter(([event]) => event === 'eventlogs:cancel'),
        (found) => found.length > 0,
      );
      expect(cancelled).to.deep.equal([['eventlogs:cancel', { queryId: 'q1' }]]);

      // What is aborted before the server has named it is ended as soon as it has a name.
      const aborting = new AbortController();
      const { signal } = aborting;
      const tail = bad.live.followEventLog({ deviceId: id, name: 'System' }, { signal }).next();
      await eventually(
        () => bad.asked.at(-1)?.[0],
        (event) => event === 'eventlogs:tail',
      );
      aborting.abort(new Error('Enough'));
      expect(await tail.catch(String)).to.equal('Error: Enough');
      startTail({ ok: true, queryId: 't1' });
      await eventually(
        () => JSON.stringify(bad.asked.at(-1)),
        (last) => last === '["eventlogs:cancel",{"queryId":"t1"}]',
      );

      const following = bad.live.followJob(id);
      expect((await following.next()).value).to.deep.equal({ type: 'state', job });
      const rows = [{ stream: 'stdout', text: 'a' }];
      emit('job:output', { id, seq: 0, rows });
      emit('job:output', { id, seq: 2, rows });
      emit('job:update', { ...job, id: id.replace(/1$/, '2'), state: 'nonsense' });
      emit('job:update', { ...job, state: 'failed' });
      const news: unknown[] = [];
      for await (const each of following) news.push('isGap' in each ? each.isGap : each.job.state);
      expect(news).to.deep.equal([false, true, 'failed']);
      await eventually(
        () => bad.asked.at(-1)?.[0],
        (event) => event === 'jobs:unsubscribe',
      );
    });
  });

  it('keeps only so much for a slow program, and throws behind what has arrived', async () => {
    const channel = new Channel<number>(2);
    for (const value of [1, 2, 3]) channel.push(value);
    const read: number[] = [];
    const error = await refusal(
      (async () => {
        for await (const value of channel.read(undefined)) read.push(value);
      })(),
    );
    expect([read, error.code]).to.deep.equal([[1, 2], 'TOO_SLOW']);
  });

  it('needs nothing of Node, so that browsers run it', async () => {
    const { outputFiles, metafile } = await build({
      entryPoints: [path.join(CLIENT, 'src/index.ts')],
      bundle: true,
      format: 'esm',
      platform: 'browser',
      minify: true,
      write: false,
      metafile: true,
      logLevel: 'silent',
    });
    const packages = Object.keys(metafile.inputs).flatMap(
      (file) => /node_modules\/([^/]+)/.exec(file)?.[1] ?? [],
    );
    expect([...new Set(packages)])
      .to.include.members(['socket.io-client', 'zod'])
      .and.not.include('knex');
    expect(outputFiles[0]?.contents.length).to.be.lessThan(1_000_000);
  });
});
