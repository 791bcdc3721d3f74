import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { WATCHDOG_VERSION } from '../../../src/watchdog/version.ts';
import { createReleaseBench, type ReleaseBench, upload } from '../../support/releases/release-support.ts';
import { builtAgent } from '../../support/built-agent.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';
import { FAKE_SYSTEMCTL } from './fake-systemctl.ts';

/** From a machine that knows nothing of Muster to a connected device, by the line that the server gives out. */
describe('install.sh', function () {
  this.timeout(180_000);
  let bench: ReleaseBench;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let key: string;
  /** Stands for the whole machine. */
  let machine: string;

  before(async () => {
    const { program } = await builtAgent();
    bench = await createReleaseBench({ env: { AGENT_HEARTBEAT_SECONDS: '1' } });
    tenant = await buildTenant(bench.app);
    key = await buildEnrollmentKey(bench.app, tenant.orgId);
    await publish(program);
  });
  after(async () => bench.close());
  beforeEach(async () => {
    machine = await mkdtemp(path.join(tmpdir(), 'muster machine-'));
    await mkdir(path.join(machine, 'run/systemd/system'), { recursive: true });
    await mkdir(path.join(machine, 'bin'));
    await writeFile(path.join(machine, 'bin/systemctl'), FAKE_SYSTEMCTL);
    await chmod(path.join(machine, 'bin/systemctl'), 0o755);
  });
  afterEach(async () => {
    await sh(`'${machine}/bin/systemctl' stop muster-agent.service`);
    await rm(machine, { recursive: true, force: true });
  });

  async function publish(file: string): Promise<void> {
    const published = await upload(bench, {
      version: WATCHDOG_VERSION,
      platform: `watchdog/linux/${process.arch}`,
      bytes: await readFile(file),
    });
    expect(published.status).to.equal(201);
    const body = { version: WATCHDOG_VERSION, component: 'watchdog' };
    await bench.app.call('POST', '/agent-versions/promote', { token: bench.admin.token, body });
  }

  /** The address that the server gives out. */
  const server = () => bench.app.url;
  const script = async (search = '') => (await fetch(`${bench.app.url}/install.sh${search}`)).text();

  /** Feeds a script into a shell, as `curl … | sh -s -- <words>` does. */
  function sh(text: string, words: string[] = [], env: Record<string, string> = {}) {
    const child = spawn('sh', ['-s', '--', ...words], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: {
        PATH: `${machine}/bin:${process.env['PATH']}`,
        HOME: machine,
        MUSTER_PREFIX: machine,
        FAKE_SYSTEMD: machine,
        ...env,
      },
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output += String(chunk);
      });
    }
    // The shell may end before it has read everything.
    child.stdin.on('error', () => {});
    child.stdin.end(text);
    return new Promise<{ code: number | null; output: string }>((resolve) => {
      child.once('close', (code) => resolve({ code, output }));
    });
  }

  const devices = async (search = '') => {
    const { body } = await bench.app.call('GET', `/devices${search}`, { token: tenant.admin.token });
    return body.data as { id: string; status: string; presence: { state: string } }[];
  };
  const filesOf = async (folder: string): Promise<string[]> =>
    (await readdir(path.join(machine, folder), { recursive: true }).catch(() => [])).toSorted((a, b) =>
      a.localeCompare(b),
    );

  it('makes no device of a machine on which the agent cannot stay, and says why', async () => {
    const before = (await devices()).length;
    await writeFile(path.join(machine, 'bin/getconf'), '#!/bin/sh\necho glibc 2.27\n', { mode: 0o755 });
    const { code, output } = await sh(await script(), [], { MUSTER_ENROLLMENT_KEY: key });
    expect([code, (await devices()).length, await filesOf('opt')]).to.deep.equal([1, before, []]);
    expect(output).to.contain('needs glibc 2.28 or newer, and this system has 2.27.');
  });

  it('makes a device of a machine, changes nothing when it runs again, and leaves nothing when it uninstalls', async () => {
    const first = await sh(await script(), [], { MUSTER_ENROLLMENT_KEY: key });
    expect(first.output).to.contain(`This machine is connected to ${server()}.`);
    expect(first.code).to.equal(0);
    // The agent knows of its connection before presence is written.
    const [device, ...others] = await eventually(devices, ([device]) => device?.status === 'online');
    expect(others).to.deep.equal([]);
    expect(await readlink(path.join(machine, 'opt/muster/watchdog/current'))).to.equal(WATCHDOG_VERSION);
    expect((await stat(path.join(machine, 'var/lib/muster-agent'))).mode & 0o777).to.equal(0o700);
    const command = path.join(machine, 'usr/local/bin/muster-agent');
    expect((await sh(`'${command}' status`)).output).to.contain('connected since');

    const calls = path.join(machine, 'calls');
    const before = { files: await filesOf('opt'), calls: await readFile(calls, 'utf8') };
    const credentials = path.join(machine, 'var/lib/muster-agent/credentials.json');
    const credentialsBefore = await readFile(credentials, 'utf8');
    const again = await sh(await script(`?key=${key}`));
    expect(again.code, again.output).to.equal(0);
    expect(again.output).to.contain('is installed').and.to.contain('is already enrolled');
    expect(await filesOf('opt')).to.deep.equal(before.files);
    expect(await readFile(credentials, 'utf8')).to.equal(credentialsBefore);
    // Questions only, also of the agent about services: nothing was started again.
    const asked = (await readFile(calls, 'utf8')).slice(before.calls.length).trim().split('\n');
    expect(asked.filter((line) => !/^(is-active|enable|list-unit)/.test(line))).to.deep.equal([]);
    expect(await devices()).to.have.length(1);

    const removed = await sh(await script(), ['--uninstall']);
    expect(removed.output).to.contain('muster-agent is removed.');
    expect(removed.code).to.equal(0);
    for (const folder of ['opt', 'var/lib', 'etc/systemd/system', 'usr/local/bin']) {
      expect(
        (await filesOf(folder)).filter((file) => file !== 'muster'),
        folder,
      ).to.deep.equal([]);
    }
    expect(await devices()).to.deep.equal([]);
    const gone = await devices('?status=decommissioned');
    expect(gone.map(({ id }) => id)).to.deep.equal([device?.id]);

    const nothing = await sh(await script(), ['--uninstall']);
    expect(nothing).to.include({ code: 0 });
    expect(nothing.output).to.contain('is not installed');
  });

  it('takes the key from the line, and says nothing with --quiet', async () => {
    const { code, output } = await sh(await script(), ['--quiet', '--no-service', '--key', key]);
    expect(output).to.equal('');
    expect(code).to.equal(0);
    // Without a service there is nothing to ask the service manager.
    expect(existsSync(path.join(machine, 'calls'))).to.equal(false);
    const stored = JSON.parse(
      await readFile(path.join(machine, 'var/lib/muster-agent/credentials.json'), 'utf8'),
    );
    expect(stored.server).to.equal(server());
  });

  it('says how to run the agent if nothing starts services, and enrolls only if that is wanted', async () => {
    await rm(path.join(machine, 'run'), { recursive: true });
    const isEnrolled = () => existsSync(path.join(machine, 'var/lib/muster-agent/credentials.json'));
    const before = (await devices()).length;
    const { code, output } = await sh(await script(`?key=${key}`));
    expect(code).to.equal(3);
    expect(isEnrolled()).to.equal(false);
    expect(output).to.contain('no service manager').and.to.contain('muster-agent watchdog run');
    expect([(await devices()).length, await filesOf('opt')]).to.deep.equal([before, []]);
    const wanted = await sh(await script(`?key=${key}`), ['--no-service']);
    expect(wanted.code, wanted.output).to.equal(0);
    expect(wanted.output).to.contain('muster-agent watchdog run');
    // The same machine as in the tests before, so it may be a device already.
    expect(isEnrolled()).to.equal(true);
  });

  it('finds an installation in other folders again', async () => {
    const [programs, data] = [path.join(machine, 'another folder'), path.join(machine, 'data')];
    const words = ['--programs', programs, '--data-dir', data, '--key', key];
    expect(await sh(await script(), words)).to.include({ code: 0 });
    const again = await sh(await script());
    expect(again.output).to.contain(`is installed in ${programs}`).and.to.contain('is already enrolled');
    const removed = await sh(await script(), ['--uninstall']);
    expect(removed.output).to.contain('muster-agent is removed.');
    expect([existsSync(programs), existsSync(data), await devices()]).to.deep.equal([false, false, []]);
  });

  it('leaves a device alone whose agent runs in the foreground, and says to stop it first', async () => {
    const installed = await sh(await script(), ['--no-service'], { MUSTER_ENROLLMENT_KEY: key });
    const foreground = /Start the agent with: (\S+) (.*)/.exec(
      installed.output.replaceAll(machine, 'MACHINE'),
    );
    const words = (foreground?.[2] ?? '').split(' ').map((word) => word.replace('MACHINE', machine));
    const program = path.join(machine, 'opt/muster/watchdog/current/muster-agent');
    const child = spawn(program, words, { stdio: 'ignore' });
    const ended = new Promise((resolve) => child.once('close', resolve));
    try {
      await eventually(devices, ([device]) => device?.status === 'online');
      const refused = await sh(await script(), ['--uninstall']);
      expect(refused.code).to.equal(1);
      expect(refused.output).to.contain('The agent is running').and.to.contain('this machine stays enrolled');
      expect(existsSync(program)).to.equal(true);
      expect(await devices()).to.have.length(1);
    } finally {
      child.kill('SIGTERM');
      await ended;
    }
    const removed = await sh(await script(), ['--uninstall']);
    expect(removed.code, removed.output).to.equal(0);
    expect(await devices()).to.deep.equal([]);
  });

  it('does nothing if it was cut off, wherever that is', async () => {
    const text = await script(`?key=${key}`);
    const cuts = [...Array(Math.ceil(text.length / 100)).keys()].map((at) => text.slice(0, at * 100));
    const whole = text.trimEnd();
    const ends = [1, 2, 3, 9, 12].map((count) => whole.slice(0, whole.length - count));
    for (const part of [...cuts, ...ends]) await sh(part);
    expect(await readdir(machine)).to.have.members(['bin', 'run']);
    expect(existsSync(path.join(machine, 'calls'))).to.equal(false);
  });

  describe('refuses', () => {
    let portal: Server;
    let body: Buffer;
    before(async () => {
      portal = createServer((_request, response) => response.end(body));
      await new Promise<void>((resolve) => portal.listen(0, '127.0.0.1', resolve));
    });
    after(() => portal.close());
    /** The script of the server, whose download leads somewhere else. */
    const misled = async () =>
      (await script(`?key=${key}`)).replace(
        /url='[^']*'/g,
        `url='http://127.0.0.1:${(portal.address() as AddressInfo).port}/'`,
      );

    it('the page of a captive portal', async () => {
      body = Buffer.from('<!DOCTYPE html><title>Sign in to the guest network</title>');
      const { code, output } = await sh(await misled());
      expect(code).to.equal(1);
      expect(output).to.contain('is not a program').and.to.contain('sign-in');
      expect(await filesOf('opt/muster')).to.deep.equal([]);
    });

    it('another program', async () => {
      body = await readFile('/bin/true');
      const { code, output } = await sh(await misled());
      expect(code).to.equal(1);
      expect(output).to.contain('Nothing was installed.');
      expect(await filesOf('opt/muster')).to.deep.equal([]);
      expect(existsSync(path.join(machine, 'var'))).to.equal(false);
    });

    it('to go on without a key, or with one that the server does not take', async () => {
      const without = await sh(await script());
      expect(without.code).to.equal(1);
      expect(without.output).to.contain('Give an enrollment key');
      const other = await buildEnrollmentKey(bench.app, tenant.orgId, { max_usage: 1 });
      await sh(await script(), ['--no-service', '--key', other]);
      await rm(path.join(machine, 'var'), { recursive: true });
      const used = await sh(await script(), ['--no-service', '--key', other]);
      expect(used.code).to.equal(2);
      expect(used.output).to.contain('Request a new enrollment key');
    });

    it('folders that no service can be started from', async () => {
      const before = (await devices()).length;
      for (const folder of [`/opt/it's`, '/opt/"a"', String.raw`/opt/a\b`, '/opt/a\nb']) {
        const { code, output } = await sh(await script(), ['--key', key, '--programs', folder]);
        expect(code, folder).to.equal(1);
        expect(output).to.contain('The folders must not have quotation marks');
      }
      expect(await devices()).to.have.length(before);
    });

    it('options that it does not know', async () => {
      const { code, output } = await sh(await script(), ['--uninstal']);
      expect(code).to.equal(1);
      expect(output).to.contain('Unknown option --uninstal');
    });
  });

  it('keeps the key out of every command line', async () => {
    const seen = path.join(machine, 'seen');
    const watch = `(while :; do cat /proc/[0-9]*/cmdline 2>/dev/null; done) >'${seen}' & watcher=$!\n`;
    const { code } = await sh(`${watch}(${await script()})\nkill $watcher`, ['--no-service'], {
      MUSTER_ENROLLMENT_KEY: key,
    });
    expect(code).to.equal(0);
    const lines = await readFile(seen, 'latin1');
    expect(lines).to.contain(`enroll\0--server\0${server()}`);
    expect(lines).not.to.contain(key);
  });
});
