import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import { chooseRelease, currentRelease, releaseFolder } from '../../../src/agent/os/releases/layout.ts';
import { changeProven, provenReleases } from '../../../src/agent/os/releases/installed-release.ts';
import { waitingStatuses, readTrial, type Trial } from '../../../src/agent/os/releases/upgrade-files.ts';
import { countEnd, observed, recordEnd, verdict } from '../../../src/watchdog/observation.ts';
import { decideHealthy, decideRollback, type Settling } from '../../../src/watchdog/settle.ts';
import { temporaryFolder } from '../../support/agent/test-agent.ts';
import { useTestClock } from '../../support/use-test-clock.ts';

const DAY_MS = 24 * 3_600_000;
const CRASH = { how: 'It ended with exit code 7.', isSilent: false, output: ['out of luck'] };
const HANG = { how: 'It stopped answering for 40 s and was killed.', isSilent: true, output: [] };

describe('the day after a trial', () => {
  const testClock = useTestClock({ isRunning: false });
  let place: Settling;
  let trial: Trial;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    const temporary = await temporaryFolder();
    ({ remove } = temporary);
    place = {
      programs: path.join(temporary.folder, 'programs'),
      dataDir: path.join(temporary.folder, 'data'),
    };
    trial = {
      component: 'agent',
      version: '1.1.0',
      from: '1.0.0',
      fromVersion: '1.0.0',
      attemptId: randomUUID(),
      sha256: 'a'.repeat(64),
      starts: 1,
    };
    for (const version of ['1.0.0', '1.1.0']) {
      await mkdir(releaseFolder(place.programs, 'agent', version), { recursive: true });
    }
    await chooseRelease(place.programs, 'agent', '1.1.0');
    await changeProven(place.dataDir, 'agent', () => ({ floor: '1.0.0', healthy: ['1.0.0'] }));
  });
  afterEach(() => remove());

  /** An end of the release 70 s after each start, as the watchdog counts it. */
  async function end(version = '1.1.0', how = CRASH) {
    await testClock.advance(70_000);
    await recordEnd(place.dataDir, version);
    const observation = await observed(place.dataDir, version);
    return observation === undefined ? undefined : countEnd(place.dataDir, observation, how);
  }

  it('ends with the third end of a release whose predecessor did not end', async () => {
    await decideHealthy(place, trial);
    expect([await end(), await end()]).to.deep.equal([undefined, undefined]);
    expect(await end()).to.deep.equal({
      code: 'CRASHED',
      message:
        'The release ended 3 times within 4 minutes after its trial; the one before it ended not once in the day before. It ended with exit code 7.\nLast output:\nout of luck',
    });
  });

  it('lets a release end as often as the one before it, and three times less once', async () => {
    for (let count = 0; count < 2; count += 1) await end('1.0.0');
    await end('0.9.0');
    await decideHealthy(place, trial);
    for (let count = 0; count < 4; count += 1) expect(await end()).to.equal(undefined);
    expect((await end())?.message)
      .to.include('ended 5 times')
      .and.to.include('ended 2 times in the day');
  });

  it('is over after a day, and counts nothing of the day before the last', async () => {
    await end('1.0.0');
    await testClock.advance(DAY_MS);
    await decideHealthy(place, trial);
    expect((await observed(place.dataDir, '1.1.0'))?.before).to.equal(0);
    await end();
    await end();
    await testClock.advance(DAY_MS);
    expect([await end(), await end()]).to.deep.equal([undefined, undefined]);
  });

  it('concerns no other release, such as the one that runs in its place', async () => {
    await decideHealthy(place, trial);
    for (let count = 0; count < 5; count += 1) expect(await end('1.0.0')).to.equal(undefined);
    expect(await observed(place.dataDir, '1.1.0')).to.include({ count: 0 });
  });

  it('names hangs, and goes back to the release before for good', async () => {
    await decideHealthy(place, trial);
    expect((await provenReleases(place.dataDir, 'agent')).floor).to.equal('1.1.0');
    await end('1.1.0', HANG);
    await end('1.1.0', HANG);
    const observation = (await observed(place.dataDir, '1.1.0'))!;
    const cause = (await end('1.1.0', HANG))!;
    expect(cause.code).to.equal('HUNG');
    await decideRollback(place, observation.trial, cause);
    expect(await currentRelease(place.programs, 'agent')).to.equal('1.0.0');
    expect(await provenReleases(place.dataDir, 'agent')).to.deep.equal({
      floor: '1.0.0',
      healthy: ['1.0.0'],
    });
    const phases = (await waitingStatuses(place.dataDir)).map(({ status }) => [status.phase, status.code]);
    expect(phases).to.deep.equal([
      ['completed', undefined],
      ['rolled_back', 'HUNG'],
    ]);
    expect([await readTrial(place.dataDir), await observed(place.dataDir, '1.1.0')]).to.deep.equal([
      undefined,
      undefined,
    ]);
  });

  it('does not count ends that lie in the future, from before the clock was set back', async () => {
    await end('1.0.0');
    await end('1.0.0');
    testClock.jump(-3_600_000);
    await end('1.0.0');
    await decideHealthy(place, trial);
    expect((await observed(place.dataDir, '1.1.0'))?.before).to.equal(1);
  });

  it('names no time below zero if the clock was set back since the trial', async () => {
    await decideHealthy(place, trial);
    testClock.jump(-DAY_MS);
    await end();
    await end();
    expect((await end())?.message).to.include('3 times within 0 s after its trial');
  });

  it('gives no verdict on an end that could not be written down', async () => {
    await decideHealthy(place, trial);
    const observation = (await observed(place.dataDir, '1.1.0'))!;
    const file = path.join(place.dataDir, 'upgrades', 'observation.json');
    await rm(file);
    await mkdir(file);
    const counted = { ...observation, count: 2 };
    expect(await countEnd(place.dataDir, counted, CRASH).catch(() => 'failed')).to.equal('failed');
  });

  it('never ends for fewer than three ends more than before', () => {
    fc.assert(
      fc.property(fc.nat(30), fc.nat(40), (before, count) => {
        const cause = verdict({ trial, since: 0, before, count, ends: [CRASH] }, 1000);
        expect(cause !== undefined).to.equal(count - before >= 3);
      }),
    );
  });
});
