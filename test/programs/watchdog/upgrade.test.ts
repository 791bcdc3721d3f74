import { rename } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { eventually } from '../../support/eventually.ts';
import { type DeviceBench, effectsIn, startDeviceBench } from './support/device-bench.ts';

/** The watchdog and the agent as processes, and releases that are good and bad. */
describe('an upgrade of the agent', function () {
  this.timeout(120_000);
  let bench: DeviceBench;

  beforeEach(async () => {
    bench = await startDeviceBench();
  });
  afterEach(() => bench.close());

  it('replaces the script, reports each phase once, and keeps the last healthy release', async () => {
    bench.start();
    await bench.runs('1.0.0');
    expect(bench.hub.lastHeartbeat?.watchdogVersion).to.equal('1.0.0');
    bench.offer(await bench.agentRelease('1.1.0'));
    await bench.phaseIs('completed');
    await bench.runs('1.1.0');
    expect(bench.phases()).to.deep.equal([
      'downloading',
      'verifying',
      'installing',
      'restarting',
      'completed',
    ]);
    expect(new Set(bench.hub.statuses.map(({ attemptId }) => attemptId)).size).to.equal(1);
    expect(bench.downloads.map(({ authorization }) => authorization)).to.deep.equal([undefined]);
  });

  const errorOf = (phase: string) =>
    [...bench.reports.flatMap(({ updates }) => updates), ...bench.hub.statuses].find(
      (status) => status.phase === phase,
    )?.error;

  it('goes back if the release ends at once, and says with which exit code and which last words', async () => {
    bench.start();
    await bench.runs('1.0.0');
    bench.offer(await bench.agentRelease('1.1.0', 'console.error("no such setting"); process.exit(3);'));
    await bench.phaseIs('rolled_back CRASHED');
    await bench.runs('1.0.0');
    expect(errorOf('rolled_back')).to.equal(
      'The release ended 2 times during its trial. It ended with exit code 3.\nLast output:\nno such setting',
    );
  });

  it('goes back if the release ends again and again after its trial', async () => {
    bench.start();
    await bench.runs('1.0.0');
    // Each start lasts longer than the trial and is connected.
    bench.offer(await bench.agentRelease('1.1.0', 'setTimeout(() => process.exit(7), 2500);'));
    await bench.phaseIs('completed');
    await bench.phaseIs('rolled_back CRASHED', 40_000);
    await bench.runs('1.0.0');
    expect(errorOf('rolled_back')).to.match(/^The release ended 3 times within \d+ s after its trial; /);
  });

  it('survives kill -9 of the watchdog in the middle, and a command takes effect once', async () => {
    const effects = path.join(bench.dataDir, 'effects');
    const command = (name: string) =>
      bench.hub.command(
        'script.run',
        {
          language: 'bash',
          content: `echo ${name} >> "$PARAM_effects"`,
          parameters: { effects },
          timeoutSeconds: 30,
        },
        { id: name },
      );
    bench.start();
    await bench.runs('1.0.0');
    await command('before');
    await bench.dieAt('start_counted', 'after');
    bench.offer(await bench.agentRelease('1.1.0'));
    await bench.phaseIs('completed', 40_000);
    expect([bench.hasDied(), bench.starts()]).to.deep.equal([true, 2]);
    await bench.runs('1.1.0');
    await command('before');
    await command('after');
    const lines = await eventually(
      () => effectsIn(effects),
      (found) => found.includes('after'),
    );
    expect(lines).to.deep.equal(['before', 'after']);
  });

  it('is possible on a machine that is enrolled after its service was started', async () => {
    const file = path.join(bench.dataDir, 'credentials.json');
    await rename(file, `${file}.later`);
    bench.start();
    await eventually(bench.output, (text) => text.includes('not enrolled'));
    await rename(`${file}.later`, file);
    await bench.runs('1.0.0');
    expect(bench.starts()).to.equal(1);
  });
});

describe('a release whose event loop hangs during its trial', function () {
  this.timeout(120_000);

  it('is rolled back as hung, and is not reported as completed before', async () => {
    // Two seconds of heartbeats, of which the release manages one.
    const bench = await startDeviceBench({ heartbeatsInARow: 40 });
    try {
      bench.start();
      await bench.runs('1.0.0');
      bench.offer(await bench.agentRelease('1.1.0', 'setTimeout(() => { for (;;); }, 1500);'));
      await bench.phaseIs('rolled_back HUNG', 40_000);
      await bench.runs('1.0.0');
      expect(bench.phases()).to.not.include('completed');
      const [{ error } = { error: '' }] = [
        ...bench.reports.flatMap(({ updates }) => updates),
        ...bench.hub.statuses,
      ].filter(({ phase }) => phase === 'rolled_back');
      expect(error).to.match(/It stopped answering for \d s and was killed\.(\n|$)/);
    } finally {
      await bench.close();
    }
  });
});
