import { expect } from 'chai';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import type { IncomingHttpHeaders } from 'node:http';
import { request } from 'node:https';
import path from 'node:path';
import { once } from 'node:events';
import { connectDashboard } from '../../support/dashboard-client.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';
import { TEST_AUTHORITY } from '../../support/https-server.ts';
import type { Answer, TestApp } from '../../support/test-app.ts';
import {
  anObject,
  basic,
  buildRepository,
  createStoreApp,
  issue,
  storeNewRepository,
} from '../../support/backup/store-support.ts';
import { needsProgram, type ProxyProgram, startCaddy, startNginx } from './proxy-programs.ts';

/** Where the clients of these tests come from, which differs from the address of the proxy. */
const CLIENT = '127.0.0.7';
/** What a client writes who wants to be somebody else. */
const FORGED = {
  'x-forwarded-for': '203.0.113.9',
  'x-real-ip': '203.0.113.9',
  'cf-connecting-ip': '203.0.113.9',
  forwarded: 'for=203.0.113.9',
};
const FROM_CLIENT = { ca: TEST_AUTHORITY, localAddress: CLIENT };
const MIB = 1024 * 1024;

interface Sent {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

describe('Muster behind a proxy', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let proxy: ProxyProgram;

  before(async () => {
    app = await createStoreApp({
      env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1', TRUST_CF_CONNECTING_IP: 'true' },
    });
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });
  after(async () => app?.close());

  /** A request whose body is sent by `write`, if it has one. */
  const send = (
    method: string,
    place: string,
    headers: Record<string, string | number> = {},
    write: (body: ReturnType<typeof request>) => Promise<void> | void = () => {},
  ): Promise<Sent> =>
    new Promise((resolve, reject) => {
      const sent = request(
        { ...FROM_CLIENT, host: '127.0.0.1', port: proxy.port, method, path: place, headers, agent: false },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.on('error', reject);
          response.on('end', () =>
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              body: Buffer.concat(chunks),
            }),
          );
        },
      );
      sent.on('error', reject);
      Promise.resolve(write(sent)).then(() => sent.end(), reject);
    });
  const bearer = () => ({ authorization: `Bearer ${tenant.admin.token}` });
  const url = () => `https://127.0.0.1:${proxy.port}`;
  const connectAgent = async (): Promise<FakeDevice> => {
    const agent = await connectDevice({ url: url() }, device.token, {
      headers: FORGED,
      connection: FROM_CLIENT,
    });
    await agent.heartbeat();
    return agent;
  };
  const readDevice = async () =>
    (await app.call('GET', `/devices/${device.deviceId}`, { token: tenant.admin.token })).body;

  /** An upload of which half has arrived. */
  const beginUpload = async () => {
    const repository = await buildRepository(app);
    const server = await issue(app, repository.id, 'server');
    await storeNewRepository(app, repository.id, server, 'a password that only tests use');
    const credential = await issue(app, repository.id, 'device');
    const place = `/backup-store/${repository.id}/data/`;
    const { content, name } = anObject(48 * MIB);
    let finish = () => {};
    const isToFinish = new Promise<void>((resolve) => (finish = resolve));
    const headers = { authorization: basic(credential), 'content-length': content.length };
    const answer = send('POST', place + name, headers, async (body) => {
      if (!body.write(content.subarray(0, content.length / 2))) await once(body, 'drain');
      await isToFinish;
      body.write(content.subarray(content.length / 2));
    });
    const arrived = () => sizeBelow(path.join(app.dataDir, 'backups', repository.id));
    await eventually(arrived, (size) => size > 20 * MIB);
    return {
      answer,
      finish,
      content,
      place: place + name,
      reader: await issue(app, repository.id, 'reader'),
    };
  };

  const everyProxy = () => {
    it('connects agents and dashboards, with the address that they have and none that they claim', async () => {
      const me = await send('GET', '/api/v1/auth/me', { ...bearer(), ...FORGED });
      expect(JSON.parse(me.body.toString())).to.include({ clientIp: CLIENT });
      const dashboard = await connectDashboard({ url: url() }, tenant.admin.token, {
        ...FROM_CLIENT,
        extraHeaders: FORGED,
      });
      await dashboard.subscribe();
      const agent = await connectAgent();
      await eventually(
        () => dashboard.deltas.flatMap(({ changed }) => changed.map(({ status }) => status)),
        (statuses) => statuses.includes('online'),
      );
      expect((await eventually(readDevice, ({ lastIp }) => lastIp !== null)).lastIp).to.equal(CLIENT);
      const answering = send('GET', `/api/v1/devices/${device.deviceId}/eventlogs/live`, bearer());
      await agent.succeed(await agent.nextCommand(), { logs: [] });
      expect((await answering).status).to.equal(200);
      agent.close();
      dashboard.close();
    });

    it('streams an upload while it arrives, and answers parts of it', async () => {
      const { answer, finish, content, place, reader } = await beginUpload();
      // Half of it has arrived at Muster, and nothing waits on the disk of the proxy.
      expect(await proxy.spooled()).to.deep.equal([]);
      finish();
      expect((await answer).status).to.equal(200);
      const range = { authorization: basic(reader), range: `bytes=${20 * MIB}-${30 * MIB - 1}` };
      const part = await send('GET', place, range);
      expect([part.status, part.headers['content-range']]).to.deep.equal([
        206,
        `bytes ${20 * MIB}-${30 * MIB - 1}/${content.length}`,
      ]);
      expect(part.body.equals(content.subarray(20 * MIB, 30 * MIB))).to.equal(true);
    });

    it('refuses bodies that no route takes, and shows no measurements', async () => {
      const post = (size: number) => {
        const headers = { 'content-type': 'application/json', 'content-length': size };
        return send(
          'POST',
          '/api/v1/auth/login',
          headers,
          (body) => void body.write(Buffer.alloc(size, ' ')),
        );
      };
      const ours = await post(200_000);
      expect([ours.status, JSON.parse(ours.body.toString()).code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
      const size = 4 * MIB;
      // The proxy answers without reading it, and may close the connection while it is still being sent.
      const refused = await post(size).catch((error: NodeJS.ErrnoException) => error.code);
      if (typeof refused === 'string') expect(refused).to.be.oneOf(['EPIPE', 'ECONNRESET']);
      // Caddy 2.6 has no better answer.
      else expect(refused?.status).to.be.oneOf([413, 502]);
      expect((await send('GET', '/metrics')).status).to.equal(404);
    });
  };

  describe('that is nginx', () => {
    let unanswered: { answer: Promise<Answer['body']>; agent: FakeDevice };

    before(async function () {
      needsProgram(this, 'nginx', '-v');
      proxy = await startNginx(app.url);
      // The longest wait of a request for a device, which goes on while the other tests run.
      const silent = await buildDevice(app, tenant.orgId);
      const agent = await connectDevice({ url: url() }, silent.token, { connection: FROM_CLIENT });
      await agent.heartbeat();
      const answer = send('GET', `/api/v1/devices/${silent.deviceId}/eventlogs/live`, bearer());
      unanswered = { answer, agent };
    });
    after(async () => {
      unanswered?.agent.close();
      await proxy?.stop();
    });

    everyProxy();

    it('redirects to TLS, and speaks HTTP/2', async () => {
      const redirect = await fetch(`http://127.0.0.1:${proxy.plainPort}/devices?a=1`, { redirect: 'manual' });
      expect([redirect.status, redirect.headers.get('location')]).to.deep.equal([
        301,
        'https://127.0.0.1/devices?a=1',
      ]);
      const session = connectHttp2(url(), { ca: TEST_AUTHORITY });
      const stream = session.request({ ':path': '/health/ready' });
      const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
      stream.resume();
      expect(headers[':status']).to.equal(200);
      session.close();
    });

    it('reloads without cutting sockets and transfers', async () => {
      const agent = await connectAgent();
      const upload = await beginUpload();
      const workers = childrenOf(proxy.pid);
      process.kill(proxy.pid, 'SIGHUP');
      await eventually(
        () => childrenOf(proxy.pid),
        (now) => now.some((pid) => !workers.includes(pid)),
      );
      expect((await send('GET', '/health/ready')).status).to.equal(200);
      await agent.heartbeat();
      upload.finish();
      expect((await upload.answer).status).to.equal(200);
      expect(agent.socket.connected).to.equal(true);
      agent.close();
      const complaints = (await proxy.log())
        .split('\n')
        .filter((line) => /\[(warn|error|crit|alert|emerg)\]/.test(line));
      expect(complaints.filter((line) => !line.includes('too large body'))).to.deep.equal([]);
    });

    it('waits as long as Muster waits for a device', async () => {
      const { status, body } = await unanswered.answer;
      expect([status, JSON.parse(body.toString()).code]).to.deep.equal([504, 'DEVICE_TIMEOUT']);
    });
  });

  describe('that is Caddy', () => {
    before(async function () {
      needsProgram(this, 'caddy', 'version');
      proxy = await startCaddy(app.url);
    });
    after(async () => proxy?.stop());

    everyProxy();
  });
});

function sizeBelow(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => statSync(path.join(folder, name), { throwIfNoEntry: false }))
    .reduce((sum, found) => sum + (found?.isFile() === true ? found.size : 0), 0);
}

const childrenOf = (pid: number): string[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
