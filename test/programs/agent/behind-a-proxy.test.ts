import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createServer, type Server } from 'node:tls';
import { expect } from 'chai';
import { DiagnosticLog } from '../../../src/agent/os/diagnostic-log.ts';
import { loadCredentials } from '../../../src/agent/core/settings.ts';
import { type DeviceSession, startSession } from '../../../src/agent/device-session.ts';
import { type AgentProgram, agentCommand, startAgent } from '../../support/agent-program.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';
import { type ForwardProxy, startForwardProxy } from '../../support/forward-proxy.ts';
import { TEST_AUTHORITY } from '../../support/https-server.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { startUpgradeBlocker, type UpgradeBlocker } from '../../support/upgrade-blocker.ts';

const SECRET = 'pass-word-of-the-proxy';
const pem = async (name: string) =>
  readFile(new URL(`../../support/certificates/${name}.pem`, import.meta.url), 'utf8');

/** The real agent and a real server, with a proxy, a certificate of its own authority or a blocked socket in between. */
describe('the agent program on networks with proxies', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let front: Server;
  let server: string;
  let dataDir: string;
  let caFile: string;
  let agent: AgentProgram | undefined;
  let session: DeviceSession | undefined;
  let proxy: ForwardProxy | undefined;
  let blocker: UpgradeBlocker | undefined;

  before(async () => {
    app = await createTestApp({ env: { AGENT_HEARTBEAT_SECONDS: '1' } });
    tenant = await buildTenant(app);
    front = createServer({ key: await pem('key'), cert: await pem('certificate') }, (near) => {
      const far = connect(Number(new URL(app.url).port), '127.0.0.1');
      near.on('error', () => far.destroy()).on('close', () => far.destroy());
      far.on('error', () => near.destroy()).on('close', () => near.destroy());
      near.pipe(far).pipe(near);
    });
    await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
    server = `https://muster.idp.test:${(front.address() as AddressInfo).port}`;
  });
  after(async () => {
    front.close();
    await app.close();
  });
  beforeEach(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-agent-'));
    caFile = path.join(dataDir, 'given.pem');
    await writeFile(caFile, TEST_AUTHORITY);
  });
  afterEach(async () => {
    agent?.child.kill('SIGKILL');
    await agent?.ended;
    await session?.stop();
    await proxy?.close();
    await blocker?.close();
    [agent, session, proxy, blocker] = [undefined, undefined, undefined, undefined];
    await rm(dataDir, { recursive: true, force: true });
  });

  const enroll = async (at: string, more: string[] = [], env: Record<string, string> = {}) => {
    const key = await buildEnrollmentKey(app, tenant.orgId);
    const words = ['enroll', '--server', at, '--key', key, '--data-dir', dataDir];
    const ended = await agentCommand([...words, '--machine-id', path.basename(dataDir), ...more], env);
    return { ...ended, deviceId: /device ([0-9a-f-]{36})/.exec(ended.output)?.[1] ?? '' };
  };
  const run = (env: Record<string, string> = {}) => {
    agent = startAgent(['run', '--json', '--data-dir', dataDir], env);
  };
  const device = async (id: string) =>
    (await app.call('GET', `/devices/${id}`, { token: tenant.admin.token })).body;
  const isConnected = async (id: string) =>
    eventually(
      () => device(id),
      ({ presence }) => presence.state === 'connected',
      30_000,
    );

  it('enrolls and connects through a proxy with a password, and again after the proxy was cut', async () => {
    proxy = await startForwardProxy({ user: 'u', password: SECRET });
    const address = `http://u:${SECRET}@127.0.0.1:${proxy.port}`;
    const { code, output, deviceId } = await enroll(server, ['--ca', caFile], { MUSTER_PROXY: address });
    expect(code, output).to.equal(0);
    await rm(caFile);
    // What the enrollment was given is stored.
    run();
    await isConnected(deviceId);
    const before = proxy.requests.length;
    expect(new Set(proxy.requests)).to.deep.equal(new Set([`CONNECT ${new URL(server).host}`]));
    proxy.cut();
    await eventually(
      () => proxy!.requests.length,
      (count) => count > before,
      30_000,
    );
    await isConnected(deviceId);
    const rotated = await agentCommand(['rotate-token', '--data-dir', dataDir]);
    expect(rotated.code, rotated.output).to.equal(0);
    const status = await agentCommand(['status', '--json', '--data-dir', dataDir]);
    expect([output, agent!.output(), rotated.output, status.output].join()).to.not.contain(SECRET);
  });

  it('explains what is missing: the authority, the password, the file', async () => {
    proxy = await startForwardProxy({ user: 'u', password: SECRET });
    const withPassword = { HTTPS_PROXY: `http://u:${SECRET}@127.0.0.1:${proxy.port}` };
    const unknown = await enroll(server, [], withPassword);
    expect([unknown.code, unknown.output]).to.satisfy(
      ([code, output]: [number, string]) => code === 3 && output.includes('--ca FILE'),
    );
    const refused = await enroll(server, ['--ca', caFile], { HTTPS_PROXY: proxy.url });
    expect(refused.output).to.contain('requires a user name and a password');
    const missing = await enroll(server, ['--ca', path.join(dataDir, 'none.pem')]);
    expect([missing.code, missing.output.includes('cannot be read')]).to.deep.equal([1, true]);
    expect(unknown.output + refused.output).to.not.contain(SECRET);
  });

  it('reports over HTTP while the socket is blocked, and uses the socket when it is not', async () => {
    blocker = await startUpgradeBlocker(app.url);
    const { code, output, deviceId } = await enroll(blocker.url);
    expect(code, output).to.equal(0);
    const credentials = await loadCredentials(dataDir);
    const states: string[] = [];
    session = await startSession({
      dataDir,
      credentials: credentials!,
      onState: ({ state }) => states.push(state),
      warn: () => {},
      log: new DiagnosticLog({ dataDir, writer: 'agent', version: '1.0.0' }),
      httpAfterMs: 200,
    });
    const found = await eventually(
      () => device(deviceId),
      ({ status }) => status === 'online',
      60_000,
    );
    expect(found.presence.state).to.equal('disconnected');
    const status = await agentCommand(['status', '--data-dir', dataDir]);
    expect([status.code, status.output]).to.satisfy(
      ([exit, text]: [number, string]) =>
        exit === 1 && text.includes('connected over HTTP only: live queries and commands are not possible'),
    );
    blocker.upgrades = 'pass';
    await isConnected(deviceId);
    const sent = blocker.heartbeatsAt.length;
    await new Promise((resolve) => setTimeout(resolve, 2500));
    expect(states.at(-1)).to.equal('connected');
    expect(blocker.heartbeatsAt).to.have.length(sent);
  });
});
