import { expect } from 'chai';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { promisify } from 'node:util';
import { AGENT_VERSION } from '../../../src/agent/core/version.ts';
import { TASK_NAME } from '../../../src/agent/os/service-definitions.ts';
import { eventually } from '../../support/eventually.ts';
import { type ManagedWindows, startManagedWindows } from './support/managed-windows.ts';
import { needsWine } from './support/needs-wine.ts';

/** The released executable on a Windows machine (Wine), and a real server. Each test goes on where the one before it ended. */
describe('the agent on Windows', function () {
  this.timeout(240_000);
  let windows: ManagedWindows;
  let deviceId: string;

  const get = (where: string) => windows.get(where);
  const device = () => get(`/devices/${deviceId}`);
  const agent = (...args: string[]) => windows.agent(...args);

  /** Runs a command on the device to its end. */
  async function command(type: string, payload: object = {}) {
    const { body, status } = await windows.app.call('POST', `/devices/${deviceId}/commands`, {
      token: windows.tenant.admin.token,
      body: { type, payload },
    });
    expect(status, JSON.stringify(body)).to.equal(202);
    return eventually(
      () => get(`/commands/${body.id}`),
      ({ finishedAt }) => finishedAt !== null,
      60_000,
    );
  }

  before(async function () {
    needsWine(this);
    windows = await startManagedWindows();
    windows.machine.standIns.on('wevtutil', () => ({ output: '' }));
  });
  after(() => windows?.close());

  it('enrolls, and keeps its folder from other users', async () => {
    deviceId = await windows.enroll();
    expect(windows.rights.of(String.raw`C:\ProgramData\muster-agent`)).to.equal(
      'O:BAG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)',
    );
  });

  it('installs its task, connects, and reports the figures of the machine', async () => {
    const { code, output } = await agent('service', 'install');
    expect(code, output).to.equal(0);
    expect(windows.scheduler.task?.command).to.equal(
      String.raw`C:\Program Files\Muster\watchdog\muster-agent.exe`,
    );
    const found = await eventually(
      device,
      ({ status, metrics }) => status === 'online' && metrics !== null,
      60_000,
    );
    expect(found).to.include({
      osType: 'windows',
      architecture: 'x64',
      agentVersion: AGENT_VERSION,
      watchdogVersion: AGENT_VERSION,
    });
    expect(found.osVersion).to.match(/Windows 10/);
    expect(found.osBuild).to.match(/^10\.0\.\d+$/);
    expect(found.hardware).to.include({ serialNumber: 'PF2ABCDE', manufacturer: 'LENOVO' });
    expect(found.hardware.ramTotalMb).to.be.greaterThan(100);
    expect(found.hardware.diskTotalGb).to.be.greaterThan(1);
    expect(found.metrics.diskPercent).to.be.within(0.1, 100);
    expect(found.metrics.ramPercent).to.be.within(0.1, 100);
    expect((await agent('service', 'status')).output).to.include(`${TASK_NAME}: running`);
    expect((await agent('status')).output).to.include('connected since');
  });

  it('sends the list of installed programs', async () => {
    await command('agent.refresh-inventory');
    const { data } = await get(`/devices/${deviceId}/software`);
    expect(data.map(({ name, version }: Record<string, string>) => `${name} ${version}`)).to.deep.equal([
      '7-Zip 23.01 (x64) 23.01',
      'Microsoft Edge 131.0.2903.70',
    ]);
    expect((await get(`/devices/${deviceId}/inventory`)).lastUser).to.equal(String.raw`FRONT\anna`);
  });

  it('runs a script of cmd, with parameters of any letters, and shows its exit code', async () => {
    const { status, output } = await command('script.run', {
      language: 'cmd',
      content: 'echo Hello %PARAM_name%\r\nver\r\nexit /b 3',
      parameters: { name: 'Anna Müller, 東京' },
      timeoutSeconds: 30,
    });
    expect(output).to.include({ exitCode: 3 });
    expect(output.stdout).to.match(/^Hello Anna Müller, 東京\r\n[^]*Microsoft Windows 10/);
    expect(status).to.equal('succeeded');
  });

  it('runs a script of Python by the launcher of its installer', async () => {
    // The Python of this machine runs the file that the agent has written on drive C.
    windows.machine.standIns.on('py', async ({ args: [option = '', file = ''], env }) => {
      const { stdout } = await promisify(execFile)('python3', [option, windows.machine.host(file)], { env });
      return { output: stdout };
    });
    const { status, output } = await command('script.run', {
      language: 'python',
      content: 'import os, sys\nprint(os.environ["PARAM_name"], sys.stdout.encoding)',
      parameters: { name: 'Anna Müller, 東京' },
      timeoutSeconds: 30,
    });
    expect(output).to.include({ exitCode: 0, stdout: 'Anna Müller, 東京 utf-8\n' });
    expect(status).to.equal('succeeded');
  });

  it('ends a script with all that it has started when its time is up', async () => {
    const { status } = await command('script.run', {
      language: 'cmd',
      content: 'start /b ping -n 600 127.0.0.1\r\nping -n 600 127.0.0.1',
      parameters: {},
      timeoutSeconds: 2,
    });
    expect(status).to.equal('timed_out');
    await eventually(
      () => windows.machine.processes('ping'),
      (left) => left.length === 0,
      10_000,
    );
  });

  it('is started again when it was killed, and when its watchdog was', async () => {
    const isAgent = ' run --data-dir ';
    const isWatchdog = ' watchdog run ';
    const connectedSince = async () => (await device()).presence.since as string;
    for (const text of [isAgent, isWatchdog]) {
      const before = await connectedSince();
      const watchdogs = await windows.machine.processes(isWatchdog);
      const victims = (await windows.machine.processes(text)).filter(
        (pid) => text === isWatchdog || !watchdogs.includes(pid),
      );
      expect(victims, text).to.have.length(1);
      process.kill(victims[0] ?? 0, 'SIGKILL');
      if (text === isWatchdog) {
        // Without its watchdog the agent ends; the next trigger of the task starts both.
        await eventually(
          () => windows.machine.processes('muster-agent.exe'),
          (left) => left.length === 0,
          20_000,
        );
        windows.scheduler.trigger();
      }
      await eventually(
        device,
        ({ status, presence }) => status === 'online' && presence.since > before,
        60_000,
      );
    }
  });

  it('stops and starts', async () => {
    expect((await agent('service', 'stop')).code).to.equal(0);
    expect((await agent('service', 'status')).code).to.equal(1);
    await eventually(device, ({ status }) => status === 'offline', 30_000);
    windows.scheduler.trigger();
    expect(windows.scheduler.isRunning()).to.equal(false);
    expect((await agent('service', 'start')).code).to.equal(0);
    await eventually(device, ({ status }) => status === 'online', 60_000);
  });

  it('is taken out of service, and leaves nothing but what another program uses', async () => {
    const dataDir = String.raw`C:\ProgramData\muster-agent`;
    expect((await agent('service', 'remove')).code).to.equal(0);
    expect(windows.scheduler.task).to.equal(undefined);
    const user = windows.machine.start('cmd', [
      '/c',
      String.raw`cd /d ${dataDir}\logs && ping -n 600 127.0.0.1`,
    ]);
    await eventually(
      () => windows.machine.processes('ping'),
      ({ length }) => length > 0,
    );
    const { code, output } = await agent('unenroll');
    expect([code, output], output).to.deep.include(1);
    expect(output).to.include('These could not be removed').and.include(String.raw`${dataDir}\logs`);
    expect(await readdir(windows.machine.host(dataDir), { recursive: true })).to.deep.equal(['logs']);
    for (const pid of await windows.machine.processes('ping')) process.kill(pid, 'SIGKILL');
    await user.ended;
    expect(await windows.machine.processes('muster-agent.exe')).to.deep.equal([]);
    const others = await readdir(windows.machine.host(String.raw`C:\ProgramData`));
    expect(others.filter((name) => /muster/i.test(name))).to.deep.equal(['muster-agent']);
  });
});
