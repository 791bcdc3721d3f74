import { expect } from 'chai';
import { connect } from 'node:net';
import { io } from 'socket.io-client';
import { AGENT_QUERY, HUB_PATH, type Refusal } from '../../../../src/protocol/index.ts';
import { onHandshakeAnswer, refusalIn } from '../../../../src/agent/core/connection-options.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { connectDevice, type Refused } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

/** What comes back first to a bare request for a websocket, which then goes away. @param until  text to wait for */
function upgrade(url: string, path: string, until = '\r\n\r\n', localAddress = '127.0.0.1'): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ port: Number(port), host: hostname, localAddress }, () => {
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
          'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n',
      );
    });
    let text = '';
    socket.on('data', (data) => {
      text += data.toString('latin1');
      if (!text.includes(until) && text.startsWith('HTTP/1.1 101')) return;
      socket.destroy();
      resolve(text);
    });
    socket.on('error', reject);
  });
}

describe('the upgrade gate', () => {
  let app: TestApp;
  let device: EnrolledDevice;
  let token: string;
  /** One at once, and hardly another. */
  before(async () => {
    app = await createTestApp({ admission: { perSecond: 0.01, burst: 1 } });
    const tenant = await buildTenant(app);
    token = tenant.admin.token;
    device = await buildDevice(app, tenant.orgId);
  });
  after(async () => app.close());

  /** A connection that says it is an agent: how it ended, as it ended. */
  const knock = async (namespace: string, options: { auth?: object; query?: object }) => {
    const early: Refusal[] = [];
    const socket = io(`${app.url}${namespace}`, {
      path: HUB_PATH,
      transports: ['websocket'],
      query: AGENT_QUERY,
      reconnection: false,
      forceNew: true,
      ...options,
    });
    onHandshakeAnswer(socket, ({ refusal }) => {
      if (refusal !== undefined) early.push(refusal);
    });
    const outcome = await new Promise<string>((resolve) => {
      socket.once('connect', () => resolve('connected'));
      socket.once('connect_error', (error: Error & { data?: Refusal }) =>
        resolve(error.data?.code ?? error.message),
      );
    });
    return { outcome, early, close: () => socket.disconnect() };
  };

  it('refuses an agent before the websocket exists, with a time to return, and admits everyone else', async () => {
    const agent = await connectDevice(app, device.token);
    const { outcome, early } = await knock('/agents', { auth: { token: device.token } });
    expect(outcome).to.equal('websocket error');
    expect(early.map(({ code }) => code)).to.deep.equal(['BUSY']);
    expect(early[0]?.retryAfterMs).to.be.greaterThan(1000);

    const unmarked = await knock('/agents', { auth: { token: 'x' }, query: {} });
    expect([unmarked.outcome, unmarked.early]).to.deep.equal(['UNAUTHENTICATED', []]);
    const dashboard = await knock('/dashboard', { auth: { token }, query: {} });
    expect(dashboard.outcome).to.equal('connected');
    dashboard.close();
    agent.close();
  });

  it('also refuses in plain HTTP and ends the connection', async () => {
    const answer = await upgrade(app.url, `${HUB_PATH}/?client=agent&EIO=4&transport=websocket`);
    expect(answer).to.match(/^HTTP\/1\.1 503 /);
    expect(Number(/\r\nRetry-After: (\d+)\r\n/.exec(answer)?.[1])).to.be.within(1, 120);
    expect(await upgrade(app.url, `${HUB_PATH}/?EIO=4&transport=websocket`, '0{')).to.match(
      /^HTTP\/1\.1 101 /,
    );
  });
});

describe('an admission', () => {
  it('is refunded when the connection ends before it authenticates', async () => {
    const app = await createTestApp({ admission: { perSecond: 0.01, burst: 1 } });
    try {
      const tenant = await buildTenant(app);
      const device = await buildDevice(app, tenant.orgId);
      const path = `${HUB_PATH}/?client=agent&EIO=4&transport=websocket`;
      for (let turn = 0; turn < 5; turn++) {
        await eventually(
          () => upgrade(app.url, path, '0{'),
          (answer) => answer.startsWith('HTTP/1.1 101'),
        );
      }
      await eventually(
        () =>
          connectDevice(app, device.token).then(
            (agent) => {
              agent.close();
              return true;
            },
            () => false,
          ),
        Boolean,
      );
    } finally {
      await app.close();
    }
  });
});

describe('an address whose connections fail to authenticate', () => {
  let app: TestApp;
  let device: EnrolledDevice;
  let token: string;
  const PATHS = [
    `${HUB_PATH}/?client=agent&EIO=4&transport=websocket`,
    `${HUB_PATH}/?EIO=4&transport=websocket`,
  ];
  before(async () => {
    app = await createTestApp({
      admission: { perSecond: 500, burst: 200, address: { atOnce: 5, failuresPerSecond: 0.001 } },
    });
    const tenant = await buildTenant(app);
    token = tenant.admin.token;
    device = await buildDevice(app, tenant.orgId);
  });
  after(async () => app.close());

  const statuses = async (path: string, localAddress: string, count: number) => {
    const found: string[] = [];
    for (let turn = 0; turn < count; turn++) {
      const [line = ''] = (await upgrade(app.url, path, '0{', localAddress)).split('\r\n', 1);
      found.push(line.split(' ')[1] ?? '');
    }
    return found;
  };

  it('runs out of attempts in both namespaces and locks out only itself', async () => {
    for (const [index, path] of PATHS.entries()) {
      const address = `127.0.0.${index + 2}`;
      expect(await statuses(path, address, 7)).to.deep.equal([
        '101',
        '101',
        '101',
        '101',
        '101',
        '503',
        '503',
      ]);
    }
    (await connectDevice(app, device.token)).close();
  });

  it('gets its attempts back when they succeed, however many there are', async () => {
    for (let turn = 0; turn < 8; turn++) (await connectDevice(app, device.token)).close();
    for (let turn = 0; turn < 8; turn++) (await connectDashboard(app, token)).close();
    const refusals: unknown[] = [];
    for (let turn = 0; turn < 7; turn++) {
      refusals.push(await connectDevice(app, 'nonsense').catch((error: Refused) => error.refusal?.code));
    }
    // The last ones did not even come to the namespace.
    expect(refusals).to.deep.equal([...Array<string>(5).fill('UNAUTHENTICATED'), undefined, undefined]);
  });
});

describe('an agent behind a trusted proxy', () => {
  it('counts under the address that the proxy reports, apart from other clients of the proxy', async () => {
    const app = await createTestApp({
      env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1/32' },
      admission: { perSecond: 500, burst: 200, address: { atOnce: 1, failuresPerSecond: 0.001 } },
    });
    try {
      const tenant = await buildTenant(app);
      const device = await buildDevice(app, tenant.orgId);
      const from = (address: string, token: string) =>
        connectDevice(app, token, { headers: { 'x-forwarded-for': address } });
      await from('203.0.113.7', 'nonsense').catch(() => {});
      const refused = await from('203.0.113.7', device.token).catch(() => 'refused');
      expect(refused).to.equal('refused');
      const agent = await from('2001:db8::7', device.token);
      const shown = await eventually(
        () => app.call('GET', `/devices/${device.deviceId}`, { token: tenant.admin.token }),
        ({ body }) => body.lastIp !== null,
      );
      expect(shown.body.lastIp).to.equal('2001:db8::7');
      agent.close();
    } finally {
      await app.close();
    }
  });
});

describe('what an agent reads of a refused connection', () => {
  it('is the refusal of the hub, the status of a proxy, or nothing', () => {
    const said = JSON.stringify({ code: 'DRAINING', retryAfterMs: 1234 });
    expect(refusalIn(503, { 'muster-refusal': said, 'retry-after': '9' })).to.deep.equal(JSON.parse(said));
    expect(refusalIn(503, { 'retry-after': '9' })).to.deep.equal({ code: 'BUSY', retryAfterMs: 9000 });
    expect(refusalIn(503, { 'muster-refusal': '{"code":1}', 'retry-after': '2' })?.retryAfterMs).to.equal(
      2000,
    );
    expect(refusalIn(503, { 'muster-refusal': '{' })).to.equal(undefined);
    expect(refusalIn(503, { 'retry-after': 'Fri, 31 Dec 1999 23:59:59 GMT' })).to.equal(undefined);
    expect(refusalIn(503, { 'retry-after': '-1' })).to.equal(undefined);
    expect(refusalIn(502, { 'retry-after': '9' })).to.equal(undefined);
  });
});
