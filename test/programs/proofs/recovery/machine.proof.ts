import { mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import type { ProofDevice } from '../backup/support/device.ts';
import { startWorld, type World } from '../backup/support/world.ts';
import { buildGuestDisk } from '../machines/guest-disk.ts';
import { machineTraces } from '../machines/machine-traces.ts';
import { needsMachines, startGuest } from '../machines/run-guest.ts';
import { startAgent } from '../../../support/agent-program.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';

/**
 * A recovery plan that starts a real Debian in a real qemu from its snapshot, with the server and the agent as processes
 * of their own: `npm run test:recovery`. It takes minutes, because qemu has to translate every instruction.
 */

const BOOT_SECONDS = 420;
/** Shuts the guest down when its power button is pressed, as a whole system does. */
const POWER_BUTTON = `#!/bin/sh
modprobe button; modprobe evdev
sleep 1
for event in /dev/input/event*; do
  (dd if=$event of=/dev/null bs=24 count=1 2>/dev/null && sync && mount -o remount,ro / ; echo o > /proc/sysrq-trigger) &
done
`;
const CHANGE = `#!/bin/sh
echo 'changed after the failover' > /srv/www/index.html && sync
printf 'Content-Type: text/plain\\r\\n\\r\\ndone'
`;

describe('a recovery plan with a real machine', function () {
  this.timeout(1_200_000);
  let world: World;
  let host: ProofDevice;
  let planId: string;
  const figures: Record<string, unknown>[] = [];

  before(async function () {
    needsRestic(this);
    needsMachines(this);
    world = await startWorld();
    const folder = path.join(world.dataDir, 'guest');
    await mkdir(folder, { mode: 0o700 });
    const disk = path.join(folder, 'disk.raw');
    await buildGuestDisk(disk, {
      page: 'the machine works',
      sizeMib: 1024,
      files: { '/usr/local/sbin/guest-work': POWER_BUTTON, '/srv/www/cgi-bin/change': CHANGE },
    });
    host = await world.addDevice({ sources: { kind: 'image', disks: [disk] } });
    await host.start();
    await host.backUp();
    const plan = { orgId: world.orgId, name: 'Site', rtoTargetMinutes: 20, rpoTargetMinutes: 60 };
    planId = (await world.ask('POST', '/dr/plans', plan)).id;
    await world.ask('POST', `/dr/plans/${planId}/groups`, {
      name: 'Machines',
      sequence: 0,
      devices: [
        {
          deviceId: host.deviceId,
          restore: { type: 'instant', memoryMb: 512, cpuCount: 1 },
          checks: [
            { type: 'http', port: 80, contains: 'the machine works', timeoutSeconds: BOOT_SECONDS },
            { type: 'tcp', port: 80, timeoutSeconds: 60 },
          ],
        },
      ],
    });
  });
  after(async () => {
    for (const figure of figures) process.stdout.write(`${JSON.stringify(figure)}\n`);
    await host?.kill();
    if (host !== undefined) await traces().end();
    await world?.close();
  });

  const traces = () => machineTraces(world.dataDir, host.agentDir);
  const execute = async (executionType: string, more: object = {}): Promise<string> =>
    (await world.ask('POST', `/dr/plans/${planId}/execute`, { executionType, ...more })).id;
  const read = (id: string) => world.ask('GET', `/dr/executions/${id}`);
  interface Action {
    kind: string;
    state: string;
    message: string | null;
  }
  const actionsOf = (execution: { groups: { steps: { actions: Action[] }[] }[] }) =>
    execution.groups.flatMap(({ steps }) => steps.flatMap(({ actions }) => actions));
  const ended = async (id: string) => {
    const execution = await eventually(
      () => read(id),
      ({ finishedAt }) => finishedAt !== null,
      900_000,
    );
    const { executionType, status, report } = execution;
    const { rtoSeconds, rpoSeconds, abortSeconds, leftovers } = report;
    figures.push({ executionType, status, rtoSeconds, rpoSeconds, abortSeconds, leftovers });
    return execution;
  };
  const reaches = (id: string, kind: string) =>
    eventually(
      async () => actionsOf(await read(id)),
      (actions) => actions.some((action) => action.kind === kind && action.state === 'running'),
      120_000,
    );
  async function expectNothingLeft() {
    const { mounts, engines, machines } = traces();
    expect(await mounts(), 'mounts').to.deep.equal([]);
    expect(await engines(), 'restic').to.deep.equal([]);
    expect(await machines(), 'qemu').to.deep.equal([]);
    const folder = path.join(host.agentDir, 'machines');
    expect(await readdir(folder).catch(() => []), 'overlays').to.deep.equal([]);
    expect((await world.ask('GET', '/backup/restore/instant-boot/active')).data).to.deep.equal([]);
  }

  it('is rehearsed: the machine boots in isolation, answers its checks, and nothing is left', async () => {
    const id = await execute('rehearsal');
    await reaches(id, 'check');
    const { mounts, machines } = traces();
    expect(await machines(), 'qemu').to.have.length(1);
    expect(await mounts(), 'mounts').to.have.length(1);
    const done = await ended(id);
    expect(done.status, JSON.stringify(done)).to.equal('completed');
    expect(done.report).to.include({ rtoMet: true, rpoMet: true, leftovers: 0 });
    expect(actionsOf(done).map(({ kind, state }) => `${kind} ${state}`)).to.deep.equal([
      'restore succeeded',
      'check succeeded',
      'check succeeded',
      'discard succeeded',
    ]);
    await expectNothingLeft();
  });

  for (const [moment, kind] of [
    ['is started', 'restore'],
    ['boots', 'check'],
  ] as const) {
    it(`is aborted within seconds while the machine ${moment}, and nothing is left`, async () => {
      const id = await execute('rehearsal');
      await reaches(id, kind);
      await world.ask('POST', `/dr/executions/${id}/abort`);
      const done = await ended(id);
      expect(done.status, JSON.stringify(done)).to.equal('aborted');
      expect(done.report.leftovers).to.equal(0);
      expect(done.report.abortSeconds).to.be.lessThan(30);
      await expectNothingLeft();
    });
  }

  it('fails over, and what the machine has written since comes back to bare metal', async () => {
    const over = await ended(await execute('failover'));
    expect(over.status, JSON.stringify(over)).to.equal('completed');
    const [machine] = (await world.ask('GET', '/backup/restore/instant-boot/active')).data;
    const changed = await fetch(`http://127.0.0.1:${machine.forwards[0].hostPort}/cgi-bin/change`);
    expect(await changed.text()).to.equal('done');

    const saved = await ended(await execute('failback', { saveMachines: true }));
    expect(saved.status, JSON.stringify(saved)).to.equal('completed');
    const { snapshotId } = saved.groups[0].steps[0];
    const snapshot = await world.ask('GET', `/backup/snapshots/${snapshotId}`);
    // It reacted to its power button, so nothing was cut off.
    expect(snapshot.details).to.include({ kind: 'image', source: 'kvm', consistency: 'filesystem' });
    expect(await traces().machines(), 'qemu').to.deep.equal([]);
    expect((await world.ask('GET', `/dr/plans/${planId}`)).failedOver).to.have.length(1);

    const { token } = await world.ask('POST', '/backup/bmr/token', { snapshotId });
    const target = path.join(world.dataDir, 'bare-metal');
    await mkdir(target, { mode: 0o700 });
    const where = ['--server', world.url, '--target', target, '--state', path.join(world.dataDir, 'state')];
    const recovery = startAgent(['recover', ...where, '--token', token, '--insecure-http', '--force']);
    await recovery.ended;
    expect(recovery.child.exitCode, recovery.output()).to.equal(0);
    const restored = await startGuest({ disk: path.join(target, 'disk0.raw'), firmware: 'bios' });
    try {
      expect((await restored.page()).trim()).to.equal('changed after the failover');
    } finally {
      await restored.stop();
    }

    const back = await ended(await execute('failback', { machinesAreBack: true }));
    expect(back.status).to.equal('completed');
    expect((await world.ask('GET', `/dr/plans/${planId}`)).failedOver).to.deep.equal([]);
    await world.ask('POST', `/backup/restore/instant-boot/${machine.id}/discard`);
    await eventually(
      async () => (await world.ask('GET', '/backup/restore/instant-boot/active')).data,
      ({ length }) => length === 0,
      60_000,
    );
    await expectNothingLeft();
  });
});
