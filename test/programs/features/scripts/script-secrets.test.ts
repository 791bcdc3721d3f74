import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { COMMAND_TYPES, SECRETS_CAPABILITY, type CommandFrame } from '../../../../src/protocol/index.ts';
import { agentCommand, type AgentProgram, startAgent } from '../../../support/agent-program.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildEnrollmentKey,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const SECRET = 'correct-horse-battery-staple-7f3a';
const CAPABILITIES = [...COMMAND_TYPES, SECRETS_CAPABILITY];
const OUTPUT = { exitCode: 0, stdout: '', stderr: '', truncated: false };

describe('secrets of scripts', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agents: FakeDevice[];
  before(async () => {
    app = await createTestApp({ env: { LOG_LEVEL: 'debug' } });
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    agents = [];
    device = await buildDevice(app, tenant.orgId);
  });
  afterEach(() => {
    for (const agent of agents) agent.close();
  });

  const call = (method: string, where: string, body?: unknown) =>
    app.call(method, where, { token: tenant.admin.token, ...(body === undefined ? {} : { body }) });
  const owner = (sql: string, values?: unknown[]) =>
    asOwner<Record<string, unknown>>(app.database.ownerUrl, sql, values);
  const script = async (content = 'true'): Promise<string> =>
    (await call('POST', '/scripts', { name: 'Secret', language: 'bash', content, orgId: tenant.orgId })).body
      .id;
  const execute = async (deviceIds: string[], content?: string) =>
    call('POST', `/scripts/${await script(content)}/execute`, {
      deviceIds,
      secrets: { DB_PASSWORD: SECRET },
    });
  async function connect(options: Parameters<typeof connectDevice>[2] = {}): Promise<FakeDevice> {
    const agent = await connectDevice(app, device.token, { capabilities: CAPABILITIES, ...options });
    agents.push(agent);
    return agent;
  }
  const secretOf = ({ payload, secrets }: CommandFrame) => {
    const { secrets: refs } = payload as { secrets: { DB_PASSWORD: { secretRef: string } } };
    return secrets?.[refs.DB_PASSWORD.secretRef];
  };
  const ended = (id: string, withinMs = 15_000) =>
    eventually(
      async () => (await call('GET', `/commands/${id}`)).body,
      ({ status }) => ['succeeded', 'failed', 'timed_out'].includes(status),
      withinMs,
    );

  /** Every row of every table, as text. */
  async function databaseDump(): Promise<string> {
    const tables = await owner(`select tablename as name from pg_tables where schemaname = 'public'`);
    const rows = await Promise.all(
      tables.map(({ name }) =>
        owner(`select coalesce(string_agg(t::text, ' '), '') as text from "${String(name)}" t`),
      ),
    );
    return rows.map(([row]) => String(row?.['text'])).join('\n');
  }

  it('reach the device in the frame, and nothing else that is stored, shown or logged', async () => {
    const dashboard = await connectDashboard(app, tenant.admin.token);
    const shown: unknown[] = [];
    dashboard.socket.onAny((...event) => shown.push(event));
    shown.push(await dashboard.send('jobs:subscribe', {}));
    const made = await execute([device.deviceId]);
    expect(made.status, JSON.stringify(made.body)).to.equal(202);
    const id: string = made.body.commands[0].id;
    const waiting = await databaseDump();
    const agent = await connect();
    const frame = await agent.nextCommand();
    expect(secretOf(frame)).to.equal(SECRET);
    const during = await databaseDump();
    await agent.succeed(frame, OUTPUT);
    const done = await ended(id);
    await app.server.chainWriter.flush();
    const after = await databaseDump();
    await eventually(
      () => JSON.stringify(shown),
      (text) => text.includes('succeeded'),
    );
    dashboard.close();
    const listed = await call('GET', `/devices/${device.deviceId}/commands`);
    const trail = await call('GET', '/audit-logs/logs');
    const seen = { waiting, during, after, shown, made, done, listed, trail, log: app.log };
    for (const [where, what] of Object.entries(seen)) {
      expect(JSON.stringify(what).length, where).to.be.greaterThan(2);
      expect(JSON.stringify(what), where).to.not.contain(SECRET);
    }
    expect(during).to.contain(id);
    expect(done.payload.secrets.DB_PASSWORD).to.have.all.keys('secretRef');
  });

  it('are removed with the end of the command, however it ends', async () => {
    const left = async (id: string) =>
      (await owner('select count(*)::int as n from command_secrets where command_id = $1', [id]))[0]?.['n'];
    const cancelled = (await execute([device.deviceId])).body.commands[0].id;
    const finished = (await execute([device.deviceId])).body.commands[0].id;
    expect([await left(cancelled), await left(finished)]).to.deep.equal([1, 1]);
    await call('POST', `/commands/${cancelled}/cancel`);
    expect(await left(cancelled)).to.equal(0);
    const agent = await connect();
    await agent.succeed(await agent.nextCommand(), OUTPUT);
    await ended(finished);
    expect(await left(finished)).to.equal(0);
  });

  it('cannot be read by the role that serves requests', async () => {
    await execute([device.deviceId]);
    const rights = await owner(
      `select has_table_privilege('svc_app', 'command_secrets', 'select, update, delete') as may,
        has_any_column_privilege('svc_app', 'command_secrets', 'select') as some`,
    );
    expect(rights).to.deep.equal([{ may: false, some: false }]);
  });

  it('are sent again with a command of which no receipt came', async () => {
    await execute([device.deviceId]);
    const silent = await connect({ receipt: () => undefined });
    const first = await silent.nextCommand();
    silent.close();
    const second = await (await connect()).nextCommand();
    expect([second.id, second.attempt, secretOf(second)]).to.deep.equal([first.id, 2, SECRET]);
  });

  it('are not given to an agent that would write them down', async () => {
    const waiting = (await execute([device.deviceId])).body.commands[0].id;
    const agent = await connect({ capabilities: [...COMMAND_TYPES] });
    expect((await ended(waiting)).error.code).to.equal('CAPABILITY_MISSING');
    expect(agent.commands).to.deep.equal([]);
    const refused = await execute([device.deviceId]);
    expect([refused.status, refused.body.details[0].code]).to.deep.equal([409, 'CAPABILITY_MISSING']);
  });

  it('cannot be borrowed: no request may refer to one', async () => {
    const other = (await execute([device.deviceId])).body.commands[0].id;
    const [row] = await owner('select ref from command_secrets where command_id = $1', [other]);
    const payload = {
      language: 'bash',
      content: 'echo $SECRET_X',
      timeoutSeconds: 60,
      secrets: { X: { secretRef: row?.['ref'] } },
    };
    const answer = await call('POST', `/devices/${device.deviceId}/commands`, {
      type: 'script.run',
      payload,
    });
    expect([answer.status, answer.body.details]).to.deep.equal([
      400,
      [{ path: 'body.payload', message: 'cannot hold references to secrets' }],
    ]);
  });

  it('that do not open any more fail their own command, and no other', async () => {
    const broken = (await execute([device.deviceId])).body.commands[0].id;
    await owner(
      `update command_secrets set value = 'v1.aaaaaaaa.AAAAAAAAAAAAAAAA.AAAA' where command_id = $1`,
      [broken],
    );
    const good = (await execute([device.deviceId])).body.commands[0].id;
    const agent = await connect();
    const frame = await agent.nextCommand();
    expect([frame.id, secretOf(frame)]).to.deep.equal([good, SECRET]);
    expect((await ended(broken)).error.code).to.equal('SECRET_UNAVAILABLE');
  });

  it('have a limit together, and names as environment variables have', async () => {
    const id = await script();
    for (const secrets of [
      { A: 'x'.repeat(4001) },
      { A: 'x'.repeat(4000), B: 'x'.repeat(4000), C: 'x'.repeat(4000) },
      { 'A-B': 'x' },
      { A: '' },
    ]) {
      const answer = await call('POST', `/scripts/${id}/execute`, { deviceIds: [device.deviceId], secrets });
      expect(answer.status).to.equal(400);
      expect(JSON.stringify(answer.body)).to.not.contain('xxx');
    }
  });

  describe('on a real machine', function () {
    this.timeout(180_000);
    let dataDir: string;
    let deviceId: string;
    let agent: AgentProgram | undefined;
    beforeEach(async () => {
      dataDir = await mkdtemp(path.join(tmpdir(), 'muster-agent-'));
      const key = await buildEnrollmentKey(app, tenant.orgId);
      const enroll = ['enroll', '--server', app.url, '--key', key, '--data-dir', dataDir];
      const { output } = await agentCommand([...enroll, '--machine-id', path.basename(dataDir)]);
      deviceId = /device ([0-9a-f-]{36})/.exec(output)?.[1] ?? '';
    });
    afterEach(async () => {
      await kill();
      await rm(dataDir, { recursive: true, force: true });
    });
    async function start(): Promise<void> {
      agent = startAgent(['run', '--json', '--data-dir', dataDir]);
      await eventually(
        async () => (await call('GET', `/devices/${deviceId}`)).body,
        ({ status, capabilities }) => status === 'online' && capabilities.includes(SECRETS_CAPABILITY),
        20_000,
      );
    }
    async function kill(): Promise<void> {
      agent?.child.kill('SIGKILL');
      await agent?.ended;
      agent = undefined;
    }
    async function filesOfAgent(): Promise<string> {
      const entries = await readdir(dataDir, { recursive: true, withFileTypes: true });
      const files = entries.filter((entry) => entry.isFile());
      const texts = await Promise.all(
        files.map((entry) => readFile(path.join(entry.parentPath, entry.name), 'latin1')),
      );
      return texts.join('\n');
    }

    it('are in the environment of the script, and nowhere in the folder of the agent after a kill', async () => {
      await start();
      const done = (await execute([deviceId], 'printf %s "$SECRET_DB_PASSWORD" | sha256sum')).body.commands[0]
        .id;
      const digest = createHash('sha256').update(SECRET).digest('hex');
      expect((await ended(done, 45_000)).output.stdout).to.contain(digest);
      const held = (await execute([deviceId], 'echo begun; sleep 60')).body.commands[0].id;
      await eventually(
        async () => (await call('GET', `/commands/${held}`)).body,
        ({ status }) => status === 'running',
        45_000,
      );
      await kill();
      const files = await filesOfAgent();
      expect(files).to.contain(held);
      expect(files).to.not.contain(SECRET);
      expect(files).to.contain('secretRef');
      await start();
      expect((await ended(held, 45_000)).error.code).to.equal('INTERRUPTED');
      const again = (await execute([deviceId], 'printf %s "$SECRET_DB_PASSWORD" | sha256sum')).body
        .commands[0].id;
      expect((await ended(again, 45_000)).output.stdout).to.contain(digest);
      expect(agent?.output()).to.not.contain(SECRET);
    });
  });
});
