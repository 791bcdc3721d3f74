import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { chooseRelease, currentRelease, releaseFolder } from '../../../src/agent/os/releases/layout.ts';
import { changeProven, provenReleases } from '../../../src/agent/os/releases/installed-release.ts';
import {
  readAttempt,
  writeAttempt,
  readTrial,
  type Trial,
  writeTrial,
  failuresOf,
  nextTryAt,
  recordFailure,
  waitingStatuses,
  readJournal,
} from '../../../src/agent/os/releases/upgrade-files.ts';
import {
  carryOut,
  decideHealthy,
  decideRollback,
  removeOthers,
  removeParts,
  type Settling,
} from '../../../src/watchdog/settle.ts';
import { temporaryFolder } from '../../support/agent/test-agent.ts';
import { useTestClock } from '../../support/use-test-clock.ts';

const HOUR_MS = 3_600_000;
const REASON = { code: 'NOT_CONNECTED', message: 'The server acknowledged no heartbeat.' };

describe('the end of a trial', () => {
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
    for (const version of ['0.9.0', '1.0.0', '1.1.0']) {
      await mkdir(releaseFolder(place.programs, 'agent', version), { recursive: true });
    }
    await chooseRelease(place.programs, 'agent', '1.1.0');
    await changeProven(place.dataDir, 'agent', () => ({ floor: '1.0.0', healthy: ['1.0.0', '0.9.0'] }));
    const { attemptId, component, version, sha256 } = trial;
    await writeAttempt(place.dataDir, { attemptId, component, version, sha256 });
    await writeTrial(place.dataDir, trial);
  });
  afterEach(() => remove());

  const current = () => currentRelease(place.programs, trial.component);
  const statuses = async () => (await waitingStatuses(place.dataDir)).map(({ status }) => status);
  const steps = async () => (await readJournal(place.dataDir)).map(({ step }) => step);
  const leftOpen = async () => [await readTrial(place.dataDir), await readAttempt(place.dataDir)];

  describe('of a healthy release', () => {
    it('proves it, reports it, and ends the attempt', async () => {
      await decideHealthy(place, trial);
      expect(await provenReleases(place.dataDir, 'agent')).to.deep.equal({
        floor: '1.1.0',
        healthy: ['1.1.0', '1.0.0', '0.9.0'],
      });
      expect(await statuses()).to.deep.equal([
        {
          component: 'agent',
          targetVersion: '1.1.0',
          fromVersion: '1.0.0',
          phase: 'completed',
          attemptId: trial.attemptId,
        },
      ]);
      expect(await steps()).to.deep.equal(['healthy', 'proven', 'settled']);
      expect([await current(), ...(await leftOpen())]).to.deep.equal(['1.1.0', undefined, undefined]);
    });

    it('forgets that it has failed before', async () => {
      const { component, version, sha256 } = trial;
      await recordFailure(place.dataDir, { component, version, sha256, ...REASON, isTemporary: false });
      await decideHealthy(place, trial);
      expect(await failuresOf(place.dataDir)).to.deep.equal([]);
    });

    it('switches to it if its trial came before the switch, as that of a watchdog', async () => {
      await chooseRelease(place.programs, 'agent', '1.0.0');
      await decideHealthy(place, trial);
      expect([await current(), await steps()]).to.deep.equal([
        '1.1.0',
        ['healthy', 'proven', 'switched', 'settled'],
      ]);
    });

    it('is carried out again after a crash in the middle, with the same outcome', async () => {
      // What is there when the decision was written and everything after it was done but for the last step.
      await decideHealthy(place, trial);
      const decided: Trial = { ...trial, verdict: { is: 'healthy' } };
      await writeTrial(place.dataDir, decided);
      await carryOut(place, decided);
      expect((await provenReleases(place.dataDir, 'agent')).healthy).to.deep.equal([
        '1.1.0',
        '1.0.0',
        '0.9.0',
      ]);
      expect(await statuses()).to.have.length(1);
      expect(await leftOpen()).to.deep.equal([undefined, undefined]);
    });
  });

  describe('of a release that failed', () => {
    it('goes back to what ran before, reports why, and ends the attempt', async () => {
      await decideRollback(place, trial, REASON);
      expect(await statuses()).to.deep.equal([
        {
          component: 'agent',
          targetVersion: '1.1.0',
          fromVersion: '1.0.0',
          phase: 'rolled_back',
          attemptId: trial.attemptId,
          code: 'NOT_CONNECTED',
          error: 'The server acknowledged no heartbeat.',
          retryInSeconds: HOUR_MS / 1000,
        },
      ]);
      expect((await readJournal(place.dataDir)).map(({ step, detail }) => [step, detail])).to.deep.equal([
        ['rolling_back', 'NOT_CONNECTED'],
        ['switched_back', undefined],
        ['rolled_back', 'NOT_CONNECTED'],
      ]);
      expect([await current(), ...(await leftOpen())]).to.deep.equal(['1.0.0', undefined, undefined]);
      expect(await provenReleases(place.dataDir, 'agent'), 'as before').to.deep.equal({
        floor: '1.0.0',
        healthy: ['1.0.0', '0.9.0'],
      });
    });

    it('reports as much of a long message as a report may have', async () => {
      await decideRollback(place, trial, { ...REASON, message: 'x'.repeat(5000) });
      expect((await statuses()).map(({ error }) => error?.length)).to.deep.equal([2000]);
    });

    it('goes back to the agent of the executable if that ran before', async () => {
      await decideRollback(place, { ...trial, from: null }, REASON);
      expect(await current()).to.equal(undefined);
    });

    it('is not tried again for an hour, unless the trial was only interrupted', async () => {
      await decideRollback(place, trial, REASON);
      const [failed] = await failuresOf(place.dataDir);
      expect(failed).to.include({ ...REASON, component: 'agent', version: '1.1.0', isTemporary: false });
      expect(nextTryAt(failed!, testClock.now()) - testClock.now()).to.equal(HOUR_MS);
      const sha256 = 'b'.repeat(64);
      await decideRollback(place, { ...trial, sha256 }, { code: 'INTERRUPTED', message: '' });
      const interrupted = (await failuresOf(place.dataDir)).find((failure) => failure.sha256 === sha256);
      expect(nextTryAt(interrupted!, testClock.now()) - testClock.now()).to.equal(0);
    });

    it('ends the pin of this release, and keeps that of another', async () => {
      const pin = (pinned: string) =>
        changeProven(place.dataDir, 'agent', (proven) => ({ ...proven, pinned }));
      const pinned = async () => (await provenReleases(place.dataDir, 'agent')).pinned;
      await pin('0.9.0');
      await decideRollback(place, trial, REASON);
      expect(await pinned()).to.equal('0.9.0');
      await pin('1.1.0');
      await decideRollback(place, trial, REASON);
      expect(await pinned()).to.equal(undefined);
    });

    it('is carried out again after a crash in the middle, and reported once', async () => {
      await decideRollback(place, trial, REASON);
      const decided: Trial = { ...trial, verdict: { is: 'rolled_back', ...REASON } };
      await writeTrial(place.dataDir, decided);
      await carryOut(place, decided);
      expect(await statuses()).to.have.length(1);
      expect([await current(), ...(await leftOpen())]).to.deep.equal(['1.0.0', undefined, undefined]);
    });

    it('counts as one failure however often its end is carried out, and as two when a second trial fails', async () => {
      const decided: Trial = { ...trial, verdict: { is: 'rolled_back', ...REASON } };
      await carryOut(place, decided);
      const [before] = await failuresOf(place.dataDir);
      await testClock.advance(60_000);
      await carryOut(place, decided);
      expect(await failuresOf(place.dataDir)).to.deep.equal([before]);
      expect(nextTryAt(before!, testClock.now()) - testClock.now()).to.equal(HOUR_MS - 60_000);
      await carryOut(place, { ...decided, attemptId: randomUUID() });
      const [again] = await failuresOf(place.dataDir);
      expect(nextTryAt(again!, testClock.now()) - testClock.now()).to.equal(6 * HOUR_MS);
    });
  });

  describe('whose next step fails', () => {
    /** A folder in the place of a file that is written or removed, or a file in the place of a folder. */
    const obstacles: Record<string, { file: string; isFolder: boolean }> = {
      'where a release is proven': { file: 'proven.json', isFolder: true },
      'where its day is observed': { file: 'observation.json', isFolder: true },
      'where its failure is recorded': { file: 'failures.json', isFolder: true },
      'where its end is reported': { file: 'statuses', isFolder: false },
      'where its attempt is removed': { file: 'attempt.json', isFolder: true },
    };
    const begins = {
      healthy: () => decideHealthy(place, trial),
      'rolled back': () => decideRollback(place, trial, REASON),
    };
    const stands = async () => {
      const left = await readTrial(place.dataDir);
      expect(left?.verdict?.is, 'the decision was written before').to.be.oneOf(['healthy', 'rolled_back']);
      return left!;
    };
    const isOver = async (release: string) => {
      expect([await current(), ...(await leftOpen())]).to.deep.equal([release, undefined, undefined]);
      expect(await statuses()).to.have.length(1);
    };

    for (const [where, { file, isFolder }] of Object.entries(obstacles)) {
      for (const [verdict, decide] of Object.entries(begins)) {
        if (file === (verdict === 'healthy' ? 'failures.json' : 'observation.json')) continue;
        it(`${where}, stays decided as ${verdict}, and is carried out later`, async () => {
          const target = path.join(place.dataDir, 'upgrades', file);
          await rm(target, { recursive: true, force: true });
          await (isFolder ? mkdir(target) : writeFile(target, ''));
          expect(await decide().catch(() => 'failed')).to.equal('failed');
          const left = await stands();
          await rm(target, { recursive: true });
          await carryOut(place, left);
          await isOver(verdict === 'healthy' ? '1.1.0' : '1.0.0');
        });
      }
    }

    for (const [verdict, decide] of Object.entries(begins)) {
      it(`if releases are switched, stays decided as ${verdict}, and is carried out later`, async () => {
        const programs = path.join(place.programs, 'agent');
        await rename(programs, `${programs}.away`);
        expect(await decide().catch(() => 'failed')).to.equal('failed');
        const left = await stands();
        expect(await statuses(), 'nothing was reported yet').to.deep.equal([]);
        await rename(`${programs}.away`, programs);
        await carryOut(place, left);
        await isOver(verdict === 'healthy' ? '1.1.0' : '1.0.0');
      });
    }
  });

  it('has not come while there is no verdict', async () => {
    await carryOut(place, trial);
    expect([await current(), await readTrial(place.dataDir), await statuses()]).to.deep.equal([
      '1.1.0',
      trial,
      [],
    ]);
  });

  it('leaves the current release, the running one and the last healthy one beside them', async () => {
    await decideHealthy(place, trial);
    await mkdir(releaseFolder(place.programs, 'agent', '1.2.0'), { recursive: true });
    await mkdir(`${releaseFolder(place.programs, 'agent', '1.3.0')}.part`, { recursive: true });
    await removeParts(place.programs);
    await removeOthers(place, 'agent', '1.1.0');
    const left = await readdir(path.join(place.programs, 'agent'));
    expect(left.sort()).to.deep.equal(['1.0.0', '1.1.0', 'current']);
  });

  it('leaves a healthy release that neither is chosen nor runs, if those two differ', async () => {
    await decideHealthy(place, trial);
    await mkdir(releaseFolder(place.programs, 'agent', '1.2.0'), { recursive: true });
    await removeOthers(place, 'agent', '1.0.0');
    const left = await readdir(path.join(place.programs, 'agent'));
    expect(left.sort()).to.deep.equal(['0.9.0', '1.0.0', '1.1.0', 'current']);
  });

  it('leaves what only begins like a part of an interrupted installation', async () => {
    const names = ['1.2.0.part', '1.2.0.draft', '1.2.0.partner'];
    for (const component of ['agent', 'watchdog']) {
      for (const name of names) await mkdir(path.join(place.programs, component, name), { recursive: true });
    }
    await removeParts(place.programs);
    for (const component of ['agent', 'watchdog']) {
      const left = await readdir(path.join(place.programs, component));
      expect(names.filter((name) => left.includes(name))).to.deep.equal(['1.2.0.partner']);
    }
  });
});
