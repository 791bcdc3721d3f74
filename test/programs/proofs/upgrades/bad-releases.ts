import { execFileSync } from 'node:child_process';
import { appendFile, mkdir, readdir, rename, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { currentRelease, ownPlatform } from '../../../../src/agent/os/releases/layout.ts';
import type { Upgrade } from '../../../../src/protocol/index.ts';
import type { WatchdogSettings } from '../../../../src/watchdog/settings.ts';
import { published, signed, signingKey } from '../../../support/agent/release-forge.ts';
import { eventually } from '../../../support/eventually.ts';
import { type DeviceBench, startDeviceBench } from '../../watchdog/support/device-bench.ts';

/** Releases that are bad in every way, each followed by the proof that the machine is still managed. */
describe('releases of the agent', function () {
  this.timeout(180_000);
  let bench: DeviceBench;

  afterEach(() => bench.close());

  const begin = async (settings: Partial<WatchdogSettings> = {}) => {
    bench = await startDeviceBench(settings);
    bench.start();
    await bench.runs('1.0.0');
  };
  const refused = async (upgrade: Upgrade, code: string) => {
    bench.offer(upgrade);
    await bench.phaseIs(`failed ${code}`);
    await bench.runs('1.0.0');
    expect(await currentRelease(bench.programs, 'agent')).to.equal(undefined);
    expect(bench.output().match(/The agent 1\.\d\.\d has started/g)).to.have.length(1);
  };
  const rolledBack = async (upgrade: Upgrade, code: string) => {
    bench.offer(upgrade);
    await bench.phaseIs(`rolled_back ${code}`, 60_000);
    await bench.runs('1.0.0');
    expect(await currentRelease(bench.programs, 'agent')).to.equal(undefined);
    const downloads = bench.downloads.length;
    await bench.runs('1.0.0');
    // The offer still stands, and is not tried again at once.
    expect(bench.downloads).to.have.length(downloads);
  };

  it('that end at once are rolled back', async () => {
    await begin();
    await rolledBack(await bench.agentRelease('1.1.0', 'process.exit(1);'), 'CRASHED');
    const starts = (await bench.journal()).filter(({ step }) => step === 'start_counted');
    expect(starts.map(({ detail }) => detail)).to.deep.equal(['1', '2']);
  });

  it('that are no program at all are rolled back', async () => {
    await begin();
    const bytes = Buffer.from('}{ this is no script');
    await rolledBack(bench.publish(signed(bench.key, bytes, { version: '1.1.0' }), bytes), 'CRASHED');
  });

  it('that never say hello are rolled back', async () => {
    await begin({ helloMs: 3000 });
    const bytes = Buffer.from('setInterval(() => {}, 1000);');
    await rolledBack(bench.publish(signed(bench.key, bytes, { version: '1.1.0' }), bytes), 'HUNG');
  });

  it('that start and never connect are rolled back', async () => {
    await begin({ firstHeartbeatMs: 3000 });
    const deaf = `require('node:net').Socket.prototype.connect = function () { return this; };`;
    await rolledBack(await bench.agentRelease('1.1.0', deaf), 'NOT_CONNECTED');
  });

  it('that connect and end soon are rolled back', async () => {
    await begin({ heartbeatsInARow: 60 });
    await rolledBack(
      await bench.agentRelease('1.1.0', 'setTimeout(() => process.exit(7), 1500);'),
      'CRASHED',
    );
  });

  it('that hang after they have connected are killed and rolled back', async () => {
    await begin({ heartbeatsInARow: 100 });
    await rolledBack(await bench.agentRelease('1.1.0', 'setTimeout(() => { for (;;); }, 1500);'), 'HUNG');
    expect(bench.output()).to.contain('stopped answering for');
  });

  it('that name another version are rolled back', async () => {
    await begin();
    const file = (await bench.agentRelease('1.1.1')).sha256;
    const bytes = bench.file(file);
    await rolledBack(bench.publish(signed(bench.key, bytes, { version: '1.1.0' }), bytes), 'WRONG_VERSION');
  });

  it('are neither confirmed nor rolled back while the server serves nobody', async () => {
    await begin({ firstHeartbeatMs: 1500 });
    const good = await bench.agentRelease('1.1.0');
    // The server goes away with the start of the trial.
    bench.hub.answersHeartbeats = true;
    bench.offer(good);
    await eventually(
      async () => bench.journal(),
      (lines) => lines.some(({ step }) => step === 'trial_recorded'),
      20_000,
    );
    bench.hub.refuse = { code: 'UNAUTHENTICATED' };
    bench.reportStatus = 401;
    await new Promise((resolve) => setTimeout(resolve, 6000));
    expect((await bench.journal()).filter(({ step }) => /healthy|rolling_back/.test(step))).to.deep.equal([]);
    expect(await currentRelease(bench.programs, 'agent')).to.equal('1.1.0');
    bench.hub.refuse = undefined;
    bench.reportStatus = 200;
    // An agent whose token was refused tries again after minutes. A restart of the machine is sooner.
    await bench.stop();
    bench.start();
    await bench.phaseIs('completed');
    await bench.runs('1.1.0');
  });

  it('with bytes, sizes or signatures that do not fit are refused, and nothing is switched', async () => {
    await begin();
    const good = await bench.agentRelease('1.1.0');
    const bytes = bench.file(good.sha256);
    const other = Buffer.concat([bytes.subarray(0, -1), Buffer.from('x')]);
    const served = (content: Buffer) =>
      bench.publish(signed(bench.key, content, { version: '9.9.9' }), content).url;
    await refused({ ...good, url: served(other) }, 'CHECKSUM_MISMATCH');
    const again = async (first: string) => bench.agentRelease('1.1.0', `// ${first}\n`);
    await refused({ ...(await again('cut')), url: served(bytes.subarray(0, 1000)) }, 'SIZE_MISMATCH');
    const long = await again('long');
    await refused(
      { ...long, url: served(Buffer.concat([bench.file(long.sha256), Buffer.alloc(10)])) },
      'SIZE_MISMATCH',
    );
    const { signature: _, ...unsigned } = await again('unsigned');
    await refused(unsigned, 'SIGNATURE_MISSING');
    await refused({ ...(await again('foreign signature')), signature: good.signature }, 'SIGNATURE_INVALID');
    await refused({ ...(await again('another size')), size: 17 }, 'SIGNATURE_INVALID');
    const isLinux = ownPlatform().os === 'linux';
    const foreign = await bench.agentRelease('1.1.0', '// foreign\n', { os: isLinux ? 'windows' : 'linux' });
    await refused(foreign, 'SIGNATURE_INVALID');
    await refused({ ...(await again('plain')), url: 'http://192.0.2.1/agent' }, 'INSECURE_URL');
    await refused({ ...(await again('huge')), size: 2 ** 40 }, 'TOO_LARGE');
    await refused({ ...(await again('path')), version: '../../x' }, 'INVALID_OFFER');
    await refused({ ...(await again('component')), component: 'kernel' }, 'UNKNOWN_COMPONENT');
    expect(bench.downloads).to.have.length(3);
    expect(bench.starts()).to.equal(1);
  });

  it('signed with an unknown key are refused, unless a trusted key has signed that key', async () => {
    await begin();
    const foreign = signingKey();
    const bytes = bench.file((await bench.agentRelease('1.1.0', '// 1\n')).sha256);
    bench.serverKeys = [published(bench.key), published(foreign)];
    await refused(bench.publish(signed(foreign, bytes, { version: '1.1.0' }), bytes), 'UNKNOWN_KEY');
    const [second] = [signingKey(bench.key)];
    const third = signingKey(second);
    bench.serverKeys = [bench.key, second, third].map(published);
    const next = bench.file((await bench.agentRelease('1.1.0', '// 2\n')).sha256);
    bench.offer(bench.publish(signed(third, next, { version: '1.1.0' }), next));
    await bench.phaseIs('completed');
    await bench.runs('1.1.0');
  });

  it('that are older than what has run are refused, but installed if a pin names them', async () => {
    await begin();
    bench.offer(await bench.agentRelease('1.2.0'));
    await bench.phaseIs('completed');
    await bench.runs('1.2.0');
    const old = await bench.agentRelease('1.1.0');
    bench.offer(old);
    await bench.phaseIs('failed DOWNGRADE');
    await bench.runs('1.2.0');
    const pinned = await bench.agentRelease('1.1.0', '// pinned\n');
    bench.offer({ ...pinned, pinned: true });
    await bench.runs('1.1.0', 30_000);
    await eventually(
      () => bench.phases().filter((phase) => phase === 'completed').length,
      (count) => count === 2,
    );
    // Back to the version that is still on the disk, without a download.
    const downloads = bench.downloads.length;
    bench.offer({ ...(await bench.agentRelease('1.2.0')), pinned: true });
    await bench.runs('1.2.0', 30_000);
    expect(bench.downloads).to.have.length(downloads);
  });

  it('are downloaded on from where the connection was cut', async () => {
    await begin();
    bench.cutAfter = 300_000;
    bench.offer(await bench.agentRelease('1.1.0'));
    await bench.phaseIs('failed DOWNLOAD_FAILED');
    await bench.phaseIs('completed');
    await bench.runs('1.1.0');
    expect(bench.downloads.map(({ range }) => range)).to.deep.equal([undefined, 'bytes=300000-']);
  });

  it('are not put if a link is, and a torn journal spoils nothing', async () => {
    bench = await startDeviceBench();
    await mkdir(path.join(bench.programs, 'agent'));
    await mkdir(path.join(bench.programs, 'elsewhere'));
    await symlink(path.join(bench.programs, 'elsewhere'), path.join(bench.programs, 'agent/1.1.0'));
    await mkdir(path.join(bench.dataDir, 'upgrades'), { recursive: true });
    await appendFile(path.join(bench.dataDir, 'upgrades/upgrades.journal'), 'abcdef01 {"at":"2026');
    bench.start();
    await bench.runs('1.0.0');
    bench.offer(await bench.agentRelease('1.1.0'));
    await bench.phaseIs('completed');
    await bench.runs('1.1.0');
    expect(await readdir(path.join(bench.programs, 'elsewhere'))).to.deep.equal([]);
    expect((await bench.journal()).map(({ step }) => step)).to.include.members(['staged', 'settled']);
  });

  it('that do not fit on the disk are put off', async function () {
    bench = await startDeviceBench();
    const space = path.join(bench.programs, 'agent');
    await mkdir(space);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=400k', 'tmpfs', space], { stdio: 'ignore' });
    } catch {
      this.skip();
    }
    try {
      bench.start();
      await bench.runs('1.0.0');
      bench.offer(await bench.agentRelease('1.1.0'));
      await bench.phaseIs('failed NO_SPACE');
      await bench.runs('1.0.0');
      expect((await readdir(space)).filter((name) => name === '1.1.0')).to.deep.equal([]);
    } finally {
      await bench.stop();
      execFileSync('umount', [space]);
    }
  });

  it('that were healthy and are damaged later give way to the one before, and that one to the embedded one', async () => {
    await begin();
    for (const version of ['1.1.0', '1.2.0']) {
      bench.offer(await bench.agentRelease(version));
      await bench.runs(version, 30_000);
      await eventually(
        () => bench.phases().at(-1),
        (phase) => phase === 'completed',
      );
    }
    bench.hub.upgrades = [];
    const script = (version: string) => path.join(bench.programs, 'agent', version, 'muster-agent.cjs');
    await bench.stop();
    await appendFile(script('1.2.0'), ' ');
    bench.start();
    await bench.runs('1.1.0');
    await bench.stop();
    await rename(script('1.1.0'), `${script('1.1.0')}.gone`);
    bench.start();
    await bench.runs('1.0.0');
  });

  it('that crash again and again later are replaced by the one before, without an upgrade', async () => {
    await begin();
    bench.offer(await bench.agentRelease('1.1.0'));
    await bench.phaseIs('completed');
    const file = path.join(bench.dataDir, 'crash-now');
    const first = `if (require('node:fs').existsSync(${JSON.stringify(file)})) process.exit(9);`;
    bench.offer(await bench.agentRelease('1.2.0', first));
    await bench.runs('1.2.0', 30_000);
    await eventually(
      () => bench.phases().filter((phase) => phase === 'completed').length,
      (count) => count === 2,
    );
    bench.hub.upgrades = [];
    await writeFile(file, '');
    await bench.stop();
    bench.start();
    await bench.runs('1.1.0', 30_000);
    expect(bench.reports.map(({ agentState }) => agentState)).to.include('crash_loop');
  });

  it('start with settings that are nonsense', async () => {
    bench = await startDeviceBench();
    await writeFile(path.join(bench.dataDir, 'settings.json'), '{"autoUpdate": "perhaps", ');
    await writeFile(path.join(bench.dataDir, 'upgrades/trial.json'), '[[[');
    await writeFile(path.join(bench.dataDir, 'upgrades/proven.json'), '0');
    bench.start();
    await bench.runs('1.0.0');
  });
});

describe('releases of the watchdog', function () {
  this.timeout(180_000);
  let bench: DeviceBench;

  beforeEach(async () => {
    bench = await startDeviceBench();
    bench.start();
    await bench.runs('1.0.0');
  });
  afterEach(() => bench.close());

  const watchdogIs = (version: string) =>
    eventually(
      () => bench.hub.lastHeartbeat?.watchdogVersion,
      (found) => found === version,
      30_000,
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${bench.output()}`);
    });

  it('prove themselves before the service starts them', async () => {
    bench.offer(await bench.watchdogRelease('1.1.0'));
    await bench.phaseIs('completed', 40_000);
    await watchdogIs('1.1.0');
    await bench.runs('1.0.0');
    expect(await currentRelease(bench.programs, 'watchdog')).to.equal('1.1.0');
    expect(bench.phases('watchdog').filter((phase) => phase === 'completed')).to.have.length(1);
    expect(bench.starts()).to.equal(2);
  });

  for (const [what, first, code] of [
    ['end at once', 'process.exit(1);', 'CRASHED'],
    ['hang', 'setTimeout(() => { for (;;); }, 500);', 'HUNG'],
    ['start no agent', `require('node:child_process').spawn = () => { throw new Error('no'); };`, 'CRASHED'],
  ] as const) {
    it(`that ${what} leave the one that is there`, async () => {
      bench.offer(await bench.watchdogRelease('1.1.0', first));
      await bench.phaseIs(`rolled_back ${code}`, 60_000);
      await bench.runs('1.0.0');
      await watchdogIs('1.0.0');
      expect(await currentRelease(bench.programs, 'watchdog')).to.equal(undefined);
      expect(bench.starts()).to.equal(1);
    });
  }
});
