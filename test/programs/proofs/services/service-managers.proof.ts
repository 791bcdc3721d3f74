import { expect } from 'chai';
import { WATCHDOG_VERSION } from '../../../../src/watchdog/version.ts';
import { eventually } from '../../../support/eventually.ts';
import { type Boot, type Container, needsContainers, startContainer, TRACES } from './support/container.ts';
import { type Connected, type InstallBench, startInstallBench } from './support/install-bench.ts';

/**
 * The agent's whole life as a service of machines with a real init: installed by the line that the server gives out,
 * upgraded, killed, started with the machine, and removed.
 */

const NEWER = '1.1.0';
const MANAGERS: [boot: Boot, manager: string, file: string][] = [
  ['systemd', 'systemd', '/etc/systemd/system/muster-agent.service'],
  ['OpenRC, started by the init of System V', 'OpenRC', '/etc/init.d/muster-agent'],
  ['OpenRC, started by openrc-init', 'OpenRC', '/etc/init.d/muster-agent'],
];

/** Longer than systemd waits for a sign of life (`WatchdogSec`). */
const HANG_MS = 120_000;

/** The processes of the agent and of its watchdog, which start with the path of their program. */
const PROCESSES = `pgrep -f '^/opt/muster/watchdog/'`;
const WATCHDOG = `pgrep -f '^/opt/muster/watchdog/[^ ]* watchdog run'`;

for (const [boot, manager, file] of MANAGERS) {
  describe(`the agent as a service of ${boot}`, function () {
    this.timeout(600_000);
    let bench: InstallBench;
    let container: Container;
    let last: Connected;
    const seconds = new Map<string, number>();

    before(async function () {
      needsContainers(this);
      bench = await startInstallBench();
      container = await startContainer(boot);
    });
    after(async () => {
      await container?.close();
      await bench?.close();
      if (seconds.size > 0) {
        // oxlint-disable-next-line no-console -- what a long run has measured
        console.info('      seconds', Object.fromEntries(seconds));
      }
    });

    async function measured<T>(what: string, work: () => Promise<T>): Promise<T> {
      const from = performance.now();
      const result = await work();
      seconds.set(what, Math.round((performance.now() - from) / 100) / 10);
      return result;
    }

    const isRunning = async () =>
      expect(await container.run('muster-agent service status')).to.deep.equal({
        code: 0,
        output: `${manager}, ${file}: running\n`,
      });

    it('connects by one line', async () => {
      last = await measured('from the line to connected', async () => {
        const output = await container.ok(bench.install());
        expect(output).to.contain(`This machine is connected to ${bench.url}.`);
        return bench.connected(container);
      });
      await isRunning();
      expect(last.device.watchdogVersion).to.equal(WATCHDOG_VERSION);
      expect((await container.run('muster-agent doctor')).output).to.contain(`${manager}: running`);
      const again = await container.ok(bench.install());
      expect(again).to.contain('is already enrolled');
      expect((await bench.connected(container)).agent).to.equal(last.agent);
      expect(await bench.devices()).to.have.length(1);
    });

    it('connects again when the machine has started again', async () => {
      last = await measured('from a restart of the machine to connected', async () => {
        await container.reboot();
        return bench.connected(container, last);
      });
      await isRunning();
    });

    it('connects again when its processes were killed', async () => {
      for (const [what, victims] of [
        ['agent', String(last.agent)],
        ['watchdog', `$(${WATCHDOG})`],
        ['agent and watchdog', `$(${PROCESSES})`],
      ]) {
        last = await measured(`from kill -9 of ${what} to connected`, async () => {
          // The number of the agent is one in the container.
          await container.ok(`kill -9 ${victims}`);
          return bench.connected(container, last);
        });
        await isRunning();
      }
    });

    it('stops, and starts again', async () => {
      await container.ok('muster-agent service stop');
      expect(await container.run('muster-agent service status')).to.include({ code: 1 });
      expect((await container.run(PROCESSES)).output).to.equal('');
      await eventually(bench.devices, ([device]) => device?.status === 'offline');
      await container.ok('muster-agent service start');
      last = await bench.connected(container, last);
      await isRunning();
    });

    it('installs a released agent and a released watchdog, and runs them after the next start too', async () => {
      await bench.publish(NEWER);
      await measured('from publishing to both upgraded', () => bench.upgraded(NEWER));
      last = await bench.connected(container);
      expect(last.device).to.include({ agentVersion: NEWER, watchdogVersion: NEWER });
      await isRunning();
      await container.reboot();
      last = await bench.connected(container, last);
      expect(last.device).to.include({ agentVersion: NEWER, watchdogVersion: NEWER });
    });

    if (manager === 'systemd') {
      it('is started again when its watchdog hangs', async () => {
        const hanging = await container.ok(WATCHDOG);
        last = await measured('from a hanging watchdog to connected', async () => {
          await container.ok(`kill -STOP ${hanging}`);
          // An agent without its watchdog goes on, until the watchdog is killed.
          await eventually(
            async () => (await container.run(WATCHDOG)).output,
            (watchdog) => watchdog !== '' && watchdog !== hanging,
            HANG_MS,
          );
          return bench.connected(container, last);
        });
        await isRunning();
      });
    }

    if (manager === 'OpenRC') {
      it('is started again by a person when the supervisor was killed', async () => {
        await container.ok(`kill -9 $(pgrep -f '^supervise-daemon muster-agent')`);
        expect(await container.run('muster-agent service status')).to.include({ code: 1 });
        await container.ok('muster-agent service start');
        last = await bench.connected(container, last);
        await isRunning();
        expect((await container.ok(WATCHDOG)).trim().split('\n')).to.have.length(1);
        // The uninstaller has to end the watchdog without the supervisor as well.
        await container.ok(`kill -9 $(pgrep -f '^supervise-daemon muster-agent')`);
      });
    }

    it('leaves nothing when it is uninstalled', async () => {
      const output = await measured('uninstalling', () => container.ok(bench.uninstall));
      expect(output).to.contain('muster-agent is removed.').and.not.to.contain('may still list');
      expect((await container.run(TRACES)).output).to.equal('');
      expect(await bench.devices()).to.deep.equal([]);
      expect(await bench.devices('?status=decommissioned')).to.have.length(1);
      await container.reboot();
      expect((await container.run(TRACES)).output).to.equal('');
    });

    it('connects in the steps that enrolling by hand prints', async () => {
      await container.ok(bench.install('--no-service'));
      const enroll = `MUSTER_ENROLLMENT_KEY=${bench.key} muster-agent enroll --server ${bench.url}`;
      const next = /connects once you install the service: (.*)/.exec(await container.ok(enroll))?.[1];
      await container.ok(next ?? 'false');
      last = await bench.connected(container);
      await isRunning();
      expect(await bench.devices()).to.have.length(1);
    });
  });
}
