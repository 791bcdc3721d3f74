import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { type Boot, type Container, needsContainers, startContainer, TRACES } from './support/container.ts';
import { type InstallBench, startInstallBench } from './support/install-bench.ts';

/** Machines on which the agent cannot stay as it is installed by default: none of them may become a device by accident. */
describe('a machine on which the agent cannot stay', function () {
  this.timeout(600_000);
  let bench: InstallBench;
  let container: Container | undefined;

  beforeEach(async function () {
    needsContainers(this);
    bench = await startInstallBench();
  });
  afterEach(async () => {
    await container?.close();
    container = undefined;
    await bench?.close();
  });

  const begin = async (boot: Boot, readOnly?: string) => (container = await startContainer(boot, readOnly));

  async function isRefused(machine: Container, words = ''): Promise<{ code: number; output: string }> {
    const refused = await machine.run(bench.install(words));
    expect(refused.code, refused.output).to.be.greaterThan(0);
    expect(refused.output).to.contain('was not enrolled');
    expect(await bench.devices()).to.deep.equal([]);
    expect((await machine.run(TRACES)).output).to.equal('');
    return refused;
  }

  async function isRemoved(machine: Container): Promise<void> {
    const output = await machine.ok(bench.uninstall);
    expect(output).to.contain('muster-agent is removed.').and.not.to.contain('may still list');
    expect((await machine.run(TRACES)).output).to.equal('');
    expect(await bench.devices()).to.deep.equal([]);
  }

  for (const boot of [
    'no service manager',
    'OpenRC that is installed and has not started the machine',
  ] as const) {
    it(`with ${boot} is refused, and can be run in the foreground`, async () => {
      const machine = await begin(boot);
      const refused = await isRefused(machine);
      expect(refused.code).to.equal(3);
      expect(refused.output).to.contain('neither systemd nor OpenRC is running');
      const told = /keep this running: (.*)/.exec(refused.output)?.[1];

      const installed = await machine.ok(bench.install('--no-service'));
      const foreground = /Start the agent with: (.*)/.exec(installed)?.[1] ?? '';
      expect(foreground).to.equal(told);
      const service = await machine.run('muster-agent service install');
      expect(service.code).to.equal(3);
      expect(service.output).to.contain(`Keep this running: ${foreground}`);
      // The link, which an upgrade moves, and not the version behind it.
      const enrolled = await machine.ok(
        `MUSTER_ENROLLMENT_KEY=${bench.key} muster-agent enroll --server ${bench.url}`,
      );
      expect(enrolled).to.contain('neither systemd nor OpenRC').and.to.contain(foreground);

      await machine.ok(`setsid ${foreground} </dev/null >/dev/null 2>&1 &`);
      await bench.connected(machine);
      expect((await machine.run('muster-agent service status')).code).to.equal(3);
      const running = await machine.run(bench.uninstall);
      expect(running.code).to.equal(1);
      expect(running.output).to.contain('Stop the agent, and run this again.');
      await machine.ok(`kill $(pgrep -f '^/opt/muster/watchdog/current/muster-agent watchdog run')`);
      await eventually(bench.devices, ([device]) => device?.status === 'offline');
      await isRemoved(machine);
    });
  }

  it('because /opt is read-only is refused, and takes another folder, which the uninstaller finds', async () => {
    const machine = await begin('systemd', '/opt');
    expect((await isRefused(machine)).output).to.contain('Choose another folder with --programs DIR');
    await machine.ok(bench.install('--programs /usr/local/lib/muster'));
    const before = await bench.connected(machine);
    await machine.reboot();
    await bench.connected(machine, before);
    await isRemoved(machine);
  });

  for (const [boot, folder] of [
    ['systemd', '/etc/systemd/system'],
    ['OpenRC, started by the init of System V', '/etc/init.d'],
  ] as const) {
    it(`because ${folder} is read-only is refused`, async () => {
      const machine = await begin(boot, folder);
      const { output } = await isRefused(machine);
      expect(output).to.contain(`${folder} cannot be written to`).and.to.contain('--no-service');
    });
  }

  it('in a folder whose programs may not be started is refused', async () => {
    const machine = await begin('systemd');
    await machine.ok('mount -t tmpfs -o noexec tmpfs /srv');
    const { output } = await isRefused(machine, '--programs /srv/programs');
    expect(output).to.contain('not mounted noexec');
  });

  it('only lacks the command for people where /usr/local/bin is read-only', async () => {
    const machine = await begin('systemd', '/usr/local/bin');
    const output = await machine.ok(bench.install());
    expect(output).to.contain('Use /opt/muster/watchdog/current/muster-agent in its place.');
    await bench.connected(machine);
    await isRemoved(machine);
  });
});
