import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { AGENT_VERSION } from '../../../src/agent/core/version.ts';
import { bundle } from '../../../src/packaging/build-agent.ts';
import { createReleaseBench, type ReleaseBench, upload } from '../../support/releases/release-support.ts';
import { builtAgent } from '../../support/built-agent.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';

interface Component {
  component: string;
  current: string;
  state: string;
  reason: string | null;
  history: { targetVersion: string; state: string; code: string | null }[];
}

const PLATFORM = `agent/linux/${process.arch}`;

/** The executable that is shipped, run by its watchdog against a real server, through a good release and a bad one. */
describe('an upgrade of the packaged agent', function () {
  this.timeout(180_000);
  let bench: ReleaseBench;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let machine: string;
  let program: string;
  let watchdog: ChildProcess | undefined;

  before(async () => {
    ({ program } = await builtAgent());
    bench = await createReleaseBench({ env: { AGENT_HEARTBEAT_SECONDS: '1' } });
    tenant = await buildTenant(bench.app);
    machine = await mkdtemp(path.join(tmpdir(), 'muster-upgrade-'));
  });
  after(async () => {
    watchdog?.kill('SIGTERM');
    await eventually(
      async () => watchdog?.exitCode ?? watchdog?.signalCode ?? null,
      (end) => watchdog === undefined || end !== null,
    );
    await bench.close();
    await rm(machine, { recursive: true, force: true });
  });

  const folders = () => [
    '--programs',
    path.join(machine, 'programs'),
    '--data-dir',
    path.join(machine, 'data'),
  ];
  const call = (method: string, where: string, body?: unknown) =>
    bench.app.call(method, where, { token: tenant.admin.token, ...(body === undefined ? {} : { body }) });

  async function enroll(): Promise<string> {
    const key = await buildEnrollmentKey(bench.app, tenant.orgId);
    const child = spawn(
      program,
      ['enroll', '--server', bench.app.url, '--data-dir', path.join(machine, 'data')],
      { env: { ...process.env, MUSTER_ENROLLMENT_KEY: key }, stdio: 'ignore' },
    );
    expect(await new Promise((resolve) => child.once('close', resolve))).to.equal(0);
    const [device] = (await call('GET', '/devices')).body.data;
    return device.id;
  }

  function startWatchdog(): void {
    watchdog = spawn(program, ['watchdog', 'run', ...folders()], { stdio: ['ignore', 'pipe', 'pipe'] });
    const log = createWriteStream(path.join(machine, 'output'));
    watchdog.stdout?.pipe(log);
    watchdog.stderr?.pipe(log);
  }

  async function publish(version: string, code: Buffer): Promise<void> {
    const published = await upload(bench, { version, platform: PLATFORM, bytes: code });
    expect(published.status, JSON.stringify(published.body)).to.equal(201);
  }

  const agentOf = async (deviceId: string): Promise<Component> =>
    (await call('GET', `/devices/${deviceId}/upgrades`)).body.data[0];

  it('reaches the new version with its work done once, and comes back from a release that ends at once', async () => {
    const deviceId = await enroll();
    startWatchdog();
    await eventually(
      async () => (await call('GET', `/devices/${deviceId}`)).body,
      ({ status, watchdogVersion }) => status === 'online' && watchdogVersion !== null,
      60_000,
    );
    expect((await agentOf(deviceId)).current).to.equal(AGENT_VERSION);

    const effects = path.join(machine, 'effects');
    const command = await call('POST', `/devices/${deviceId}/commands`, {
      type: 'script.run',
      payload: { language: 'bash', content: `sleep 3; echo done >> '${effects}'`, timeoutSeconds: 60 },
    });
    expect(command.status).to.equal(202);
    const { code } = await bundle('agent', '1.1.0');
    const misnamed = await upload(bench, { version: '1.1.1', platform: PLATFORM, bytes: code });
    expect([misnamed.status, misnamed.body.error]).to.deep.equal([
      400,
      'The file is version 1.1.0 of the agent, and not 1.1.1. It was not stored.',
    ]);
    const executable = await readFile(program);
    const asWindows = {
      version: AGENT_VERSION,
      platform: `watchdog/windows/${process.arch}`,
      bytes: executable,
    };
    expect((await upload(bench, asWindows)).body.error).to.include(
      'is a program for linux, and not for windows',
    );
    await publish('1.1.0', code);
    const upgraded = await eventually(
      () => agentOf(deviceId),
      // The version comes with a heartbeat, and the end of the upgrade with a report of its own.
      ({ state, current, history }) =>
        state === 'up_to_date' && current === '1.1.0' && history[0]?.state === 'completed',
      90_000,
    );
    expect(upgraded.history.map(({ targetVersion, state }) => [targetVersion, state])).to.deep.equal([
      ['1.1.0', 'completed'],
    ]);
    expect(await readFile(effects, 'utf8')).to.equal('done\n');
    expect((await call('GET', `/commands/${command.body.id}`)).body.status).to.equal('succeeded');
    const trialEnded = () => readFile(path.join(machine, 'output'), 'utf8');
    await eventually(trialEnded, (text) => text.includes('The agent 1.1.0 is healthy.'), 60_000);

    await publish('1.2.0', Buffer.from('process.exit(3);'));
    const back = await eventually(
      () => agentOf(deviceId),
      ({ reason }) => reason === 'retry_later',
      90_000,
    );
    expect(back).to.include({ state: 'rolled_back', current: '1.1.0' });
    expect(back.history[0]).to.include({ targetVersion: '1.2.0', state: 'rolled_back', code: 'CRASHED' });
    await eventually(
      async () => (await call('GET', '/alerts?status=active')).body.data as { kind: string }[],
      (alerts) => alerts.some(({ kind }) => kind === 'upgrade_failed'),
    );
    const device = await eventually(
      async () => (await call('GET', `/devices/${deviceId}`)).body,
      ({ status }) => status === 'online',
      30_000,
    );
    expect(device.agentVersion).to.equal('1.1.0');
  });
});
