import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { cpus, hostname, tmpdir, totalmem } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import type { LogEntry, LogMetadata } from '../../../src/protocol/index.ts';
import { agentCommand, startAgent, type AgentProgram } from '../../support/agent-program.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';
import { lastingPort } from '../../support/lasting-port.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

/** The real agent, as processes, against a real server. */
describe('the agent program', function () {
  let database: TestDatabase;
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let dataDir: string;
  const programs: AgentProgram[] = [];
  const env = { AGENT_HEARTBEAT_SECONDS: '1' };

  before(async () => {
    database = await createTestDatabase();
    app = await createTestApp({ database, env: { ...env, PORT: String(await lastingPort()) } });
    tenant = await buildTenant(app);
  });
  after(async () => {
    await app.close();
    await database.drop();
  });
  beforeEach(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-agent-'));
  });
  afterEach(async () => {
    for (const { child, ended } of programs.splice(0)) {
      child.kill('SIGKILL');
      await ended;
    }
    await rm(dataDir, { recursive: true, force: true });
  });

  const start = (args: string[], env: Record<string, string> = {}) => {
    const program = startAgent(args, env);
    programs.push(program);
    return program;
  };
  const enroll = (key: string, more: string[] = []) =>
    agentCommand(['enroll', '--server', app.url, '--key', key, '--data-dir', dataDir, ...more]);
  const get = async (where: string) => (await app.call('GET', where, { token: tenant.admin.token })).body;
  const status = async () => {
    const { code, output } = await agentCommand(['status', '--json', '--data-dir', dataDir]);
    return {
      code,
      ...(JSON.parse(output) as { deviceId: string; running: { connection: { state: string } } | null }),
    };
  };

  /** What the command says of a state, once the file has it: each question is a start of the program. */
  const statusIn = async (state: string, isSo: (of: Awaited<ReturnType<typeof status>>) => boolean) => {
    await eventually(
      () => readFile(path.join(dataDir, 'status.json'), 'utf8').catch(() => ''),
      (text) => text.includes(`"${state}"`),
    );
    return eventually(status, isSo);
  };
  const connectedStatus = () => statusIn('connected', ({ code }) => code === 0);

  it('enrolls, connects, reads the real logs of this machine, and shuts down in order', async () => {
    expect((await agentCommand(['status', '--data-dir', dataDir])).code).to.equal(2);
    expect((await agentCommand(['run', '--data-dir', dataDir])).code).to.equal(2);

    const key = await buildEnrollmentKey(app, tenant.orgId);
    const enrolled = await enroll(key, ['--hostname', 'THIS-ONE']);
    expect(enrolled.code, enrolled.output).to.equal(0);
    expect(enrolled.output).not.to.contain(key);
    const file = path.join(dataDir, 'credentials.json');
    expect((await stat(file)).mode & 0o777).to.equal(0o600);
    expect(await readFile(file, 'utf8')).not.to.contain(key);
    expect(await status()).to.include({ code: 1, running: null });

    const agent = start(['run', '--data-dir', dataDir]);
    const { deviceId } = await connectedStatus();
    const device = await eventually(
      () => get(`/devices/${deviceId}`),
      (body) => body.status === 'online' && body.metrics !== null,
    );
    expect(device.hostname).to.equal('THIS-ONE');
    expect(device.metrics.diskPercent).to.be.within(0.1, 100);
    expect(device.capabilities).to.include('eventlogs.query');
    expect((await agentCommand(['run', '--data-dir', dataDir])).output).to.contain('already running');

    const { data: logs } = (await get(`/system-tools/devices/${deviceId}/eventlogs`)) as {
      data: LogMetadata[];
    };
    const log = logs.find(({ recordCount }) => recordCount > 0);
    expect(log, 'this machine has a log with something in it').not.to.equal(undefined);
    const base = `/system-tools/devices/${deviceId}/eventlogs/${encodeURIComponent(log!.name.toUpperCase())}`;
    const page = await get(`${base}/events?limit=3`);
    expect(page.data.length).to.be.within(1, 3);
    const [entry] = page.data as LogEntry[];
    expect((await get(`${base}/events/${entry!.recordId}`)).data).to.deep.equal(entry);
    expect((await get(`${base}/events/1`)).code).to.equal('NOT_FOUND');
    expect(
      (await get(`/system-tools/devices/${deviceId}/eventlogs/..%2F..%2Fetc%2Fpasswd/events`)).code,
    ).to.equal('NOT_FOUND');

    agent.child.kill('SIGTERM');
    expect(await agent.ended).to.equal(0);
    expect(await readdir(dataDir)).not.to.include('status.json');
    await eventually(
      () => get(`/devices/${deviceId}`),
      (body) => body.status === 'offline',
    );
  });

  it('sends the software of this machine, and its changes on request', async () => {
    // A package manager that this machine may not have, beside those that it has.
    const programs = path.join(dataDir, 'programs');
    await mkdir(programs);
    const list = async (...apps: string[]) =>
      writeFile(path.join(programs, 'list'), apps.map((app) => `${app}\tthis-test\n`).join(''));
    await list('Planner\t1.0', 'Sketch\t7');
    await writeFile(
      path.join(programs, 'flatpak'),
      `#!/bin/sh\nexec cat '${path.join(programs, 'list')}'\n`,
      { mode: 0o755 },
    );
    await enroll(await buildEnrollmentKey(app, tenant.orgId));
    start(['run', '--data-dir', dataDir], { PATH: `${programs}:${process.env['PATH'] ?? ''}` });
    const { deviceId } = await connectedStatus();
    // The device may be known, with what an earlier test has left: it is the same machine.
    const { data: found } = await eventually(
      () => get(`/devices/${deviceId}/software?search=planner`),
      ({ data }) => data.length > 0,
      30_000,
    );
    const inventory = await get(`/devices/${deviceId}/inventory`);
    expect(inventory.hardware).to.deep.include({
      cpuCores: cpus().length,
      ramTotalMb: Math.round(totalmem() / 2 ** 20),
    });
    expect(inventory.interfaces.filter(({ isPrimary }: { isPrimary: boolean }) => isPrimary)).to.have.length(
      1,
    );
    expect((await get(`/devices/${deviceId}`)).hostname).to.equal(hostname());
    expect(found).to.deep.equal([
      { name: 'Planner', version: '1.0', publisher: 'this-test', installedAt: null },
    ]);
    // What dpkg itself says of a package that each Debian has.
    const { stdout } = await promisify(execFile)('dpkg-query', ['-W', '-f', '${Version}', 'dpkg']).catch(
      () => ({
        stdout: '',
      }),
    );
    if (stdout !== '') {
      const { data } = await get(`/devices/${deviceId}/software?search=dpkg`);
      expect(data.find(({ name }: { name: string }) => name === 'dpkg').version).to.equal(stdout);
    }

    await list('Planner\t1.1', 'Notes\t0');
    const asked = await app.call('POST', `/devices/${deviceId}/commands`, {
      token: tenant.admin.token,
      body: { type: 'agent.refresh-inventory' },
    });
    await eventually(
      () => get(`/commands/${asked.body.id}`),
      (body) => body.status === 'succeeded',
    );
    const { data: changes } = await get(`/devices/${deviceId}/software/changes?limit=3`);
    expect(
      changes.map(({ change, name, version, previousVersion }: Record<string, string | null>) =>
        [change, name, previousVersion, version].join(' '),
      ),
    ).to.deep.equal(['removed Sketch 7 ', 'updated Planner 1.0 1.1', 'installed Notes  0']);
  });

  it('reports by its exit code why an enrollment failed', async () => {
    const spent = await buildEnrollmentKey(app, tenant.orgId, { max_usage: 1, usage_count: 1 });
    const unknown = await enroll('nonsense');
    expect([unknown.code, unknown.output.includes('not known')]).to.deep.equal([2, true]);
    const used = await enroll(spent);
    expect([used.code, used.output.includes('usage limit')]).to.deep.equal([2, true]);
    const nowhere = await agentCommand([
      'enroll',
      '--server',
      'http://127.0.0.1:1',
      '--key',
      'x',
      '--data-dir',
      dataDir,
    ]);
    expect([nowhere.code, nowhere.output.includes('could not be reached')]).to.deep.equal([3, true]);
    const capped = await buildTenant(app);
    const key = await buildEnrollmentKey(app, capped.orgId);
    await app.server.database.pool.transaction(async (trx) => {
      await trx.raw('set local role svc_system');
      await trx('organizations').where({ id: capped.orgId }).update({ max_devices: 0 });
    });
    expect((await enroll(key)).code).to.equal(4);
    expect(await readdir(dataDir)).to.deep.equal([]);
  });

  it('reconnects after a restart of the server, and shows its state meanwhile', async () => {
    await enroll(await buildEnrollmentKey(app, tenant.orgId));
    const agent = start(['run', '--json', '--data-dir', dataDir]);
    const { deviceId } = await connectedStatus();
    const { port } = new URL(app.url);
    await app.close();
    await statusIn('waiting', ({ running }) => running?.connection.state === 'waiting');
    app = await createTestApp({ database, env: { ...env, PORT: port } });
    await eventually(
      () => get(`/devices/${deviceId}`),
      (body) => body.status === 'online',
    );
    expect(agent.output()).to.contain('The server ended the connection (draining).');
    agent.child.kill('SIGINT');
    expect(await agent.ended).to.equal(0);
  });

  it('ignores the status file of a killed agent', async () => {
    await enroll(await buildEnrollmentKey(app, tenant.orgId));
    const agent = start(['run', '--data-dir', dataDir]);
    await connectedStatus();
    agent.child.kill('SIGKILL');
    await agent.ended;
    expect(await readdir(dataDir)).to.include('status.json');
    expect(await status()).to.include({ code: 1, running: null });
  });

  it('simulates a fleet that enrolls, responds, and is the same after a restart', async () => {
    const keysFile = path.join(dataDir, 'keys.json');
    await writeFile(
      keysFile,
      JSON.stringify([{ key: await buildEnrollmentKey(app, tenant.orgId), share: 1 }]),
    );
    const simulate = (devices: number) =>
      start([
        'simulate',
        '--server',
        app.url,
        '--keys-file',
        keysFile,
        '--devices',
        String(devices),
        '--data-dir',
        path.join(dataDir, 'fleet'),
      ]);
    const connected = (fleet: AgentProgram) =>
      eventually(
        () => fleet.output(),
        (text) => text.includes('"fleet.connected"'),
      );
    const online = async () =>
      (await get(`/devices?orgId=${tenant.orgId}&status=online&limit=100`)).data as {
        id: string;
        osType: string;
      }[];

    const first = simulate(30);
    await connected(first);
    const devices = await eventually(online, (list) => list.length === 30);
    const windows = devices.find(({ osType }) => osType === 'windows')!;

    const base = `/devices/${windows.id}/eventlogs/System/events`;
    const two = await get(`${base}?level=error,critical&limit=2&page=2`);
    const four = await get(`${base}?level=error,critical&limit=4`);
    expect(two.data).to.deep.equal(four.data.slice(2));
    expect(new Set(four.data.map(({ level }: LogEntry) => level))).to.satisfy((levels: Set<string>) =>
      [...levels].every((level) => ['error', 'critical'].includes(level)),
    );
    const [entry] = four.data as LogEntry[];
    expect((await get(`${base}/${entry!.recordId}`)).data).to.deep.equal(entry);

    first.child.kill('SIGTERM');
    expect(await first.ended).to.equal(0);
    const second = simulate(30);
    await connected(second);
    const again = await eventually(online, (list) => list.length === 30);
    expect(again.map(({ id }) => id)).to.have.members(devices.map(({ id }) => id));
  });
});
