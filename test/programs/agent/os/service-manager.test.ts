import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { serviceManager } from '../../../../src/agent/os/service-manager.ts';

/** What is asked of the service managers of Linux. `test/programs/proofs/services` shows that real ones do it. */
describe('the service manager of a Linux machine', () => {
  let machine: string;
  let calls: string[];
  /** The words of calls that fail, as `systemctl is-active` does for a stopped service. */
  let failing: string[];

  beforeEach(async () => {
    machine = await mkdtemp(path.join(tmpdir(), 'muster-manager-'));
    [calls, failing] = [[], []];
  });
  afterEach(async () => rm(machine, { recursive: true }));

  const find = () =>
    serviceManager({
      platform: 'linux',
      program: '/unused',
      place: { prefix: machine, programs: '/opt/muster', dataDir: '/var/lib/muster-agent' },
      run: (name, words) => {
        const call = [name, ...words].join(' ');
        calls.push(call);
        return failing.some((part) => call.endsWith(part))
          ? Promise.reject(new Error(call))
          : Promise.resolve('');
      },
    });

  async function isRun(...files: string[]): Promise<void> {
    for (const file of files) {
      await mkdir(path.dirname(path.join(machine, file)), { recursive: true });
      if (file.endsWith('/')) await mkdir(path.join(machine, file), { recursive: true });
      else await writeFile(path.join(machine, file), '');
    }
  }

  async function openrc() {
    await isRun('run/openrc/softlevel');
    const manager = await find();
    if (manager === undefined) throw new Error('not found');
    return manager;
  }

  it('is the one that has started the machine, and not one that is only installed', async () => {
    await isRun('sbin/openrc-run', 'lib/systemd/systemd', 'etc/init.d/');
    expect(await find()).to.equal(undefined);
    await isRun('run/openrc/softlevel');
    expect((await find())?.name).to.equal('OpenRC');
    await isRun('run/systemd/system/');
    expect((await find())?.name).to.equal('systemd');
  });

  it('OpenRC has the script once, and in the runlevel that starts with the machine', async () => {
    const manager = await openrc();
    expect(await manager.state()).to.equal('not_installed');
    expect(await manager.install()).to.equal(true);
    expect(manager.file).to.equal(path.join(machine, 'etc/init.d/muster-agent'));
    expect((await stat(manager.file)).mode & 0o777).to.equal(0o755);
    expect(await readFile(manager.file, 'utf8')).to.contain('supervisor=supervise-daemon');
    expect(await manager.install()).to.equal(false);
    expect(calls).to.deep.equal(Array(2).fill('rc-update --quiet add muster-agent default'));
  });

  it('OpenRC stops a service before its script is removed from its runlevels, and is asked nothing if there is none', async () => {
    const manager = await openrc();
    await manager.remove();
    expect(calls).to.deep.equal([]);
    await manager.install();
    await isRun(
      'etc/runlevels/boot/',
      'etc/runlevels/default/muster-agent',
      'etc/runlevels/own/muster-agent',
    );
    calls = [];
    await manager.remove();
    expect(calls).to.deep.equal([
      'rc-service muster-agent stop',
      'rc-update --quiet delete muster-agent default own',
    ]);
    expect(existsSync(manager.file)).to.equal(false);
  });

  it('OpenRC keeps the script of a service that does not stop', async () => {
    const manager = await openrc();
    await manager.install();
    failing = ['stop'];
    const failure = await manager.remove().catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(Error);
    expect(existsSync(manager.file)).to.equal(true);
  });

  it('OpenRC restarts a service that has lost its supervisor, and leaves a running one alone', async () => {
    const manager = await openrc();
    await manager.install();
    calls = [];
    await manager.start();
    expect(calls).to.deep.equal(['rc-service muster-agent status']);
    failing = ['status'];
    expect(await manager.state()).to.equal('stopped');
    await manager.start();
    expect(calls.at(-1)).to.equal('rc-service muster-agent restart');
  });
});
