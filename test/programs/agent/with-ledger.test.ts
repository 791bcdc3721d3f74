import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { agentCommand, startAgent, type AgentProgram } from '../../support/agent-program.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

/** The ledger of a real server and the journal of a real agent, with either of them killed in between. */
describe('durable commands from the API to the effect', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let dataDir: string;
  let deviceId: string;
  let agent: AgentProgram | undefined;

  before(async () => {
    app = await createTestApp({ env: { AGENT_HEARTBEAT_SECONDS: '1' } });
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-agent-'));
    const key = await buildEnrollmentKey(app, tenant.orgId);
    const enroll = ['enroll', '--server', app.url, '--key', key, '--data-dir', dataDir];
    // Each test is another machine.
    const { output } = await agentCommand([...enroll, '--machine-id', path.basename(dataDir)]);
    deviceId = /device ([0-9a-f-]{36})/.exec(output)![1]!;
  });
  afterEach(async () => {
    await kill();
    await rm(dataDir, { recursive: true, force: true });
  });

  const get = async (where: string) => (await app.call('GET', where, { token: tenant.admin.token })).body;
  async function start(): Promise<void> {
    agent = startAgent(['run', '--json', '--data-dir', dataDir]);
    await eventually(
      () => get(`/devices/${deviceId}`),
      ({ status, capabilities }) => status === 'online' && capabilities.includes('script.run'),
      20_000,
    );
  }
  async function kill(): Promise<void> {
    agent?.child.kill('SIGKILL');
    await agent?.ended;
    agent = undefined;
  }
  const order = async (type: string, payload: object): Promise<string> => {
    const made = await app.call('POST', `/devices/${deviceId}/commands`, {
      token: tenant.admin.token,
      body: { type, payload },
    });
    expect(made.status, JSON.stringify(made.body)).to.equal(202);
    return made.body.id;
  };
  const run = (content: string) => order('script.run', { language: 'bash', content, timeoutSeconds: 30 });
  const ended = (id: string, withinMs = 15_000) =>
    eventually(
      () => get(`/commands/${id}`),
      ({ status }) => ['succeeded', 'failed', 'cancelled', 'timed_out', 'expired'].includes(status),
      withinMs,
    );
  const running = (id: string) =>
    eventually(
      () => get(`/commands/${id}`),
      ({ status }) => status === 'running',
    );

  it('run a script, change a setting and refresh the inventory', async () => {
    await start();
    const script = await ended(await run('echo "hello from $PWD" | cut -c1-5; exit 7'));
    expect([script.status, script.output]).to.deep.equal([
      'succeeded',
      { exitCode: 7, stdout: 'hello\n', stderr: '', truncated: false },
    ]);
    expect((await ended(await order('agent.set-auto-update', { enabled: false }))).status).to.equal(
      'succeeded',
    );
    await eventually(
      () => get(`/devices/${deviceId}`),
      ({ autoUpdate }) => autoUpdate === false,
    );
    expect((await ended(await order('agent.refresh-inventory', {}))).status).to.equal('succeeded');
  });

  it('are each executed once and in order by an agent that is killed meanwhile', async () => {
    await start();
    const effects = path.join(dataDir, 'effects');
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      ids.push(await run(`echo ${name} >> ${effects}; sleep ${name < 'c' ? 20 : 0}`));
    }
    await Promise.all(ids.slice(0, 2).map(running));
    await eventually(
      () => readFile(effects, 'utf8').catch(() => ''),
      (text) => text.length === 4,
    );
    await kill();
    await start();
    const ends = await Promise.all(ids.map((id) => ended(id)));
    expect(ends.map(({ status, error }) => [status, error?.code])).to.deep.equal([
      ['failed', 'INTERRUPTED'],
      ['failed', 'INTERRUPTED'],
      ...ids.slice(2).map(() => ['succeeded', undefined]),
    ]);
    expect((await readFile(effects, 'utf8')).trim().split('\n').sort()).to.deep.equal('abcdef'.split(''));
  });

  it('are cancelled while they run', async () => {
    await start();
    const begun = path.join(dataDir, 'begun');
    const id = await run(`echo started; touch ${begun}; sleep 100`);
    await running(id);
    await eventually(
      () => stat(begun).catch(() => undefined),
      (found) => found !== undefined,
    );
    await app.call('POST', `/commands/${id}/cancel`, { token: tenant.admin.token, body: {} });
    const { status, output } = await ended(id, 5000);
    expect([status, output?.stdout ?? 'started\n']).to.deep.equal(['cancelled', 'started\n']);
  });
});
