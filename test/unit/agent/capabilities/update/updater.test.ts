import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { requestApply, readOfferState } from '../../../../../src/agent/capabilities/update/offer.ts';
import {
  StatusSender,
  Updater,
  type RunningWork,
} from '../../../../../src/agent/capabilities/update/updater.ts';
import { UpdateFault } from '../../../../../src/agent/capabilities/update/download.ts';
import { HubRefused } from '../../../../../src/agent/core/answer-channel.ts';
import type { WatchdogLink } from '../../../../../src/agent/core/watchdog-link.ts';
import { AGENT_VERSION } from '../../../../../src/agent/core/version.ts';
import { programFile } from '../../../../../src/agent/os/releases/layout.ts';
import { afterHealthy, changeProven } from '../../../../../src/agent/os/releases/installed-release.ts';
import { saveTrustedKeys } from '../../../../../src/agent/os/releases/release-check.ts';
import {
  readAttempt,
  failuresOf,
  waitingStatuses,
  readJournal,
} from '../../../../../src/agent/os/releases/upgrade-files.ts';
import type { UpdateStatus, Upgrade } from '../../../../../src/protocol/index.ts';
import { install, published, signed, signingKey } from '../../../../support/agent/release-forge.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';
import { eventually } from '../../../../support/eventually.ts';
import { useTestClock } from '../../../../support/use-test-clock.ts';

const BYTES = Buffer.from('console.log("the release")');
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

type Install = Parameters<WatchdogLink['install']>[0];

/** Commands that run as the test says. */
class ScriptedWork implements RunningWork {
  isIdle = true;
  isPaused = false;
  #waiting: (() => void)[] = [];

  async idle(): Promise<void> {
    if (!this.isIdle) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
  end(): void {
    this.isIdle = true;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
  pause(): void {
    this.isPaused = true;
  }
  resume(): void {
    this.isPaused = false;
  }
}

describe('the updater of an agent', () => {
  const testClock = useTestClock({ isRunning: false });
  const key = signingKey();
  let folder: string;
  let remove: () => Promise<void>;
  let dataDir: string;
  let programs: string;
  let updater: Updater;
  let work: ScriptedWork;
  let statuses: StatusSender;
  let sent: UpdateStatus[];
  let warnings: string[];
  let asked: Install[];
  let downloads: number;
  /** How the watchdog answers a request for an installation. */
  let answer: () => Promise<{ code?: string; message?: string }>;
  let download: (file: string, signal: AbortSignal) => Promise<void>;
  let refreshKeys: () => Promise<void>;
  let send: (status: UpdateStatus) => Promise<void>;
  let isAutomatic: boolean;
  let beatEveryMs: number | undefined;

  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
    dataDir = path.join(folder, 'data');
    programs = path.join(folder, 'programs');
    sent = [];
    warnings = [];
    asked = [];
    downloads = 0;
    answer = async () => ({});
    download = (file) => writeFile(file, BYTES);
    refreshKeys = async () => {};
    send = async (status) => void sent.push(status);
    isAutomatic = true;
    beatEveryMs = undefined;
    await saveTrustedKeys(dataDir, [published(key)]);
    begin();
  });
  afterEach(async () => {
    await updater.stop();
    expect(testClock.pending, 'timers left behind').to.equal(0);
    await remove();
  });

  /** A process of the agent, on what the last one has left. */
  function begin(): void {
    const link: WatchdogLink = {
      watchdogVersion: '0.9.0',
      programs,
      get beatEveryMs() {
        return beatEveryMs;
      },
      answerChecks() {},
      heartbeat() {},
      connection() {},
      install(request) {
        asked.push(request);
        return answer();
      },
    };
    work = new ScriptedWork();
    const warn = (message: string) => void warnings.push(message);
    statuses = new StatusSender(dataDir, warn);
    statuses.attach((status) => send(status));
    updater = new Updater({
      dataDir,
      link,
      work,
      statuses,
      isAutomatic: () => isAutomatic,
      allowsHttp: false,
      async download({ folder: to, sha256, signal }) {
        downloads += 1;
        await mkdir(to, { recursive: true });
        const file = path.join(to, `${sha256}.part`);
        await download(file, signal);
        return file;
      },
      refreshKeys: () => refreshKeys(),
      warn,
    });
  }

  function offerOf(version: string, more: Partial<Upgrade> = {}, bytes = BYTES): Upgrade {
    const { manifest, signature, keyId } = signed(key, bytes, { version });
    const { sha256, size } = manifest;
    const url = 'https://muster.example/release';
    return { component: 'agent', version, url, sha256, size, signature, keyId, ...more };
  }
  const offered = async (...upgrades: Upgrade[]) => {
    updater.offered(upgrades);
    await updater.settle();
    await statuses.flush();
  };
  /** The moment when the updater sleeps, and not before. */
  const sleeping = () =>
    eventually(
      () => testClock.pending,
      (count) => count > 0,
    );
  /** After the watchdog has agreed: nothing is left but that this process is stopped. */
  const handedOver = async (upgrade: Upgrade) => {
    const before = asked.length;
    updater.offered([upgrade]);
    await eventually(
      () => asked.length,
      (count) => count > before,
    );
    await sleeping();
  };
  const phases = () => sent.map(({ phase }) => phase);
  const failure = async () => (await failuresOf(dataDir))[0];
  /** An attempt that the process before this one has begun. */
  async function leaveAttempt(upgrade: Upgrade): Promise<string> {
    download = (_file, signal) =>
      new Promise((_resolve, reject) => {
        // The updater may have been stopped already, while the folder was made.
        if (signal.aborted) reject(signal.reason);
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    updater.offered([upgrade]);
    await eventually(
      () => downloads,
      (count) => count === 1,
    );
    await updater.stop();
    download = (file) => writeFile(file, BYTES);
    const attempt = await readAttempt(dataDir);
    begin();
    return attempt?.attemptId ?? 'none';
  }

  describe('with an offer', () => {
    it('downloads, checks and stages the release, and hands it to the watchdog', async () => {
      const upgrade = offerOf('5.0.0');
      await handedOver(upgrade);
      expect(phases()).to.deep.equal(['downloading', 'verifying', 'installing', 'restarting']);
      const { attemptId } = asked[0]!;
      expect(asked).to.deep.equal([
        { component: 'agent', version: '5.0.0', sha256: upgrade.sha256, attemptId, isPinned: false },
      ]);
      expect(new Set(sent.map((status) => status.attemptId))).to.deep.equal(new Set([attemptId]));
      expect(sent[0]).to.include({ fromVersion: AGENT_VERSION, targetVersion: '5.0.0' });
      expect(await readFile(programFile(programs, 'agent', '5.0.0'))).to.deep.equal(BYTES);
      expect(work.isPaused, 'accepts no commands meanwhile').to.equal(true);
      expect((await readJournal(dataDir)).map(({ step }) => step)).to.deep.equal([
        'download_started',
        'download_checked',
        'staged',
        'install_requested',
      ]);
      expect(await readOfferState(dataDir)).to.deep.equal({ component: 'agent', version: '5.0.0' });
    });

    it('stages it if an attempt that was cut off has left a part of it, and leaves no part itself', async () => {
      const part = path.join(programs, 'agent', '5.0.0.part');
      await mkdir(part, { recursive: true });
      await writeFile(path.join(part, 'muster-agent.cjs'), 'half of a rel');
      await handedOver(offerOf('5.0.0'));
      expect(await readFile(programFile(programs, 'agent', '5.0.0'))).to.deep.equal(BYTES);
      expect(await readdir(path.join(programs, 'agent'))).to.deep.equal(['5.0.0']);
      expect(await readdir(path.join(dataDir, 'upgrades', 'downloads'))).to.deep.equal([]);
    });

    it('upgrades the watchdog in the same way, from the version that it names', async () => {
      const { manifest, signature, keyId } = signed(key, BYTES, { component: 'watchdog', version: '5.0.0' });
      const { sha256, size } = manifest;
      const url = 'https://muster.example/release';
      const upgrade = { component: 'watchdog', version: '5.0.0', url, sha256, size, signature, keyId };
      await offered({ ...upgrade, version: '0.9.0' });
      expect(downloads, 'the version that runs').to.equal(0);
      await handedOver(upgrade);
      expect(asked[0]).to.include({ component: 'watchdog', version: '5.0.0' });
      expect(sent[0]).to.include({ component: 'watchdog', fromVersion: '0.9.0' });
      expect(await readFile(programFile(programs, 'watchdog', '5.0.0'))).to.deep.equal(BYTES);
      const journal = await readJournal(dataDir);
      expect(new Set(journal.map(({ component }) => component))).to.deep.equal(new Set(['watchdog']));
    });

    it('fails for a component that it does not know, of which no version runs here', async () => {
      await offered(offerOf('5.0.0', { component: 'x'.repeat(60) }));
      expect(sent.at(-1)).to.include({
        component: 'x'.repeat(50),
        fromVersion: '',
        code: 'UNKNOWN_COMPONENT',
      });
      const journal = await readJournal(dataDir);
      expect([downloads, journal]).to.deep.equal([0, []]);
    });

    it('cuts what it reports to what a report may have', async () => {
      download = () => Promise.reject(new UpdateFault('DOWNLOAD_FAILED', 'x'.repeat(5000), true));
      await offered(offerOf('5.0.0'));
      expect(sent.at(-1)?.error).to.have.length(2000);
      await offered(offerOf(`5.0.0-${'1'.repeat(60)}`));
      expect(sent.at(-1)?.targetVersion).to.have.length(50);
    });

    it('is a new attempt if the other component has the same file', async () => {
      const agent = offerOf('5.0.0');
      const attemptId = await leaveAttempt(agent);
      await offered({ ...agent, component: 'watchdog' });
      expect(sent.at(-1)).to.include({ component: 'watchdog', phase: 'failed' });
      expect(sent.at(-1)?.attemptId).to.not.equal(attemptId);
    });

    it('says on the machine if it could not be considered at all', async () => {
      await mkdir(path.join(dataDir, 'upgrades', 'apply-request.json.taken'), { recursive: true });
      await requestApply(dataDir);
      await offered(offerOf('5.0.0'));
      expect(warnings.join()).to.contain('An upgrade could not be tried');
      expect(downloads).to.equal(0);
    });

    it('does nothing with the version that runs, and forgets what was offered before', async () => {
      isAutomatic = false;
      await offered(offerOf('5.0.0'));
      expect(await readOfferState(dataDir)).to.include({ version: '5.0.0' });
      await offered(offerOf(AGENT_VERSION));
      expect(await readOfferState(dataDir)).to.equal(undefined);
      expect(downloads).to.equal(0);
    });

    it('installs one at a time, however often it is offered', async () => {
      const upgrade = offerOf('5.0.0');
      await handedOver(upgrade);
      updater.offered([upgrade]);
      updater.offered([offerOf('6.0.0')]);
      expect([downloads, asked.length]).to.deep.equal([1, 1]);
    });

    it('installs nothing while this release is on trial itself', async () => {
      beatEveryMs = 5000;
      await offered(offerOf('5.0.0'));
      expect([downloads, sent]).to.deep.equal([0, []]);
    });

    it('waits for consent if upgrades are not automatic, and takes it once', async () => {
      isAutomatic = false;
      answer = async () => ({ code: 'NO_ANSWER' });
      await offered(offerOf('5.0.0'));
      await offered(offerOf('5.0.0', { requested: true }));
      expect(downloads, 'a person at the server is not one at the machine').to.equal(0);
      await requestApply(dataDir);
      await offered(offerOf('5.0.0'));
      expect(asked).to.have.length(1);
      await offered(offerOf('5.0.0'));
      expect(asked).to.have.length(1);
    });

    it('asks the server for keys if it does not know the one of the release', async () => {
      await saveTrustedKeys(dataDir, []);
      let refreshed = 0;
      refreshKeys = async () => {
        refreshed += 1;
        await saveTrustedKeys(dataDir, [published(key)]);
      };
      await handedOver(offerOf('5.0.0'));
      expect(refreshed).to.equal(1);
    });

    it('does not ask for keys if it knows that of the release', async () => {
      let refreshed = 0;
      refreshKeys = async () => void (refreshed += 1);
      await handedOver(offerOf('5.0.0'));
      expect(refreshed).to.equal(0);
    });
  });

  describe('with a version that is installed already', () => {
    it('does not download it again', async () => {
      await install(programs, signed(key, BYTES, { version: '5.0.0' }), BYTES);
      await handedOver(offerOf('5.0.0'));
      expect([downloads, phases()]).to.deep.equal([0, ['installing', 'restarting']]);
    });

    it('downloads the release again if the installed one has another hash', async () => {
      const former = Buffer.from('console.log("of the same version")');
      await install(programs, signed(key, former, { version: '5.0.0' }), former);
      await handedOver(offerOf('5.0.0'));
      expect(downloads).to.equal(1);
      expect(await readFile(programFile(programs, 'agent', '5.0.0'))).to.deep.equal(BYTES);
    });

    it('downloads the release again if the installed one is damaged', async () => {
      await install(programs, signed(key, BYTES, { version: '5.0.0' }), Buffer.alloc(BYTES.length));
      await handedOver(offerOf('5.0.0'));
      expect(downloads).to.equal(1);
      expect(await readFile(programFile(programs, 'agent', '5.0.0'))).to.deep.equal(BYTES);
    });
  });

  describe('without a connection', () => {
    const isKept = async () => (await waitingStatuses(dataDir)).map(({ status }) => status.phase);
    beforeEach(() => {
      download = () => Promise.reject(new UpdateFault('DOWNLOAD_FAILED', 'The network is down.', true));
    });

    it('keeps the phases, and sends them in order when a connection exists', async () => {
      send = () => Promise.reject(new Error('The socket is closed.'));
      await offered(offerOf('5.0.0'));
      await statuses.flush();
      expect([await isKept(), phases()]).to.deep.equal([['downloading', 'failed'], []]);
      expect(warnings.join()).to.contain('The state of an upgrade could not be sent');
      statuses.attach(async (status) => void sent.push(status));
      await statuses.flush();
      expect([await isKept(), phases()]).to.deep.equal([[], ['downloading', 'failed']]);
    });

    it('keeps the phases for the next process', async () => {
      send = () => Promise.reject(new Error('The socket is closed.'));
      await offered(offerOf('5.0.0'));
      send = async (status) => void sent.push(status);
      begin();
      await statuses.flush();
      expect([await isKept(), phases()]).to.deep.equal([[], ['downloading', 'failed']]);
    });

    it('sends the remaining messages over a connection that replaces the first one', async () => {
      send = () => Promise.reject(new Error('The socket is closed.'));
      await offered(offerOf('5.0.0'));
      let confirm = () => {};
      const former: string[] = [];
      statuses.attach(async ({ phase }) => {
        former.push(phase);
        if (former.length === 1) await new Promise<void>((resolve) => (confirm = resolve));
      });
      await eventually(
        () => former.length,
        (count) => count === 1,
      );
      statuses.attach(async (status) => void sent.push(status));
      confirm();
      await statuses.flush();
      expect([former, phases(), await isKept()]).to.deep.equal([['downloading'], ['failed'], []]);
    });

    it('does not wait for a phase that the hub has refused, and sends those after it', async () => {
      send = (status) =>
        status.phase === 'downloading'
          ? Promise.reject(new HubRefused('There is no such phase.'))
          : Promise.resolve(void sent.push(status));
      await offered(offerOf('5.0.0'));
      await statuses.flush();
      expect([await isKept(), phases()]).to.deep.equal([[], ['failed']]);
      expect(warnings.join()).to.contain('The hub did not accept the state of an upgrade');
    });
  });

  describe('after a failure that may pass', () => {
    beforeEach(() => {
      download = () => Promise.reject(new UpdateFault('DOWNLOAD_FAILED', 'The network is down.', true));
    });

    it('reports it, ends the attempt, and accepts commands again', async () => {
      await offered(offerOf('5.0.0'));
      expect(sent.at(-1)).to.include({
        phase: 'failed',
        code: 'DOWNLOAD_FAILED',
        error: 'The network is down.',
      });
      expect([await readAttempt(dataDir), work.isPaused]).to.deep.equal([undefined, false]);
      expect(warnings.join()).to.contain('The network is down.');
    });

    it('tries again with the next heartbeat, then after a minute, and then after twice as long each time', async () => {
      await offered(offerOf('5.0.0'));
      await offered(offerOf('5.0.0'));
      expect(downloads, 'at once').to.equal(2);
      for (const [tries, waitMs] of [
        [3, MINUTE_MS],
        [4, 2 * MINUTE_MS],
        [5, 4 * MINUTE_MS],
      ] as const) {
        await testClock.advance(waitMs - 1);
        await offered(offerOf('5.0.0'));
        expect(downloads, 'a moment before').to.equal(tries - 1);
        await testClock.advance(1);
        await offered(offerOf('5.0.0'));
        expect(downloads).to.equal(tries);
      }
      expect(new Set(sent.map(({ attemptId }) => attemptId)).size, 'each attempt has its own id').to.equal(5);
    });

    it('shows why and until when it waits', async () => {
      await offered(offerOf('5.0.0'));
      await offered(offerOf('5.0.0'));
      await offered(offerOf('5.0.0'));
      expect(await readOfferState(dataDir)).to.deep.equal({
        component: 'agent',
        version: '5.0.0',
        failure: 'The network is down.',
        nextTryAt: new Date(testClock.now() + MINUTE_MS).toISOString(),
      });
    });

    it('does not wait if a person asks for it, at the server or at the machine', async () => {
      await offered(offerOf('5.0.0'));
      await offered(offerOf('5.0.0'));
      await offered(offerOf('5.0.0', { requested: true }));
      expect(downloads).to.equal(3);
      await requestApply(dataDir);
      await offered(offerOf('5.0.0'));
      expect(downloads).to.equal(4);
    });

    it('tries another release at once', async () => {
      await offered(offerOf('5.0.0'));
      await offered(offerOf('5.0.0'));
      await offered(offerOf('5.0.1', {}, Buffer.from('another release')));
      expect(downloads).to.equal(3);
    });

    it('is not held up by a clock that was set back', async () => {
      await offered(offerOf('5.0.0'));
      await offered(offerOf('5.0.0'));
      testClock.jump(-24 * HOUR_MS);
      await offered(offerOf('5.0.0'));
      testClock.jump(24 * HOUR_MS);
      expect(downloads).to.equal(3);
    });
  });

  describe('after a failure of the release itself', () => {
    it('tries it again after one, six and then every 24 hours', async () => {
      download = (file) => writeFile(file, Buffer.alloc(BYTES.length));
      await offered(offerOf('5.0.0'));
      expect(await failure()).to.include({ code: 'CHECKSUM_MISMATCH', isTemporary: false, count: 1 });
      for (const [tries, hours] of [
        [2, 1],
        [3, 6],
        [4, 24],
        [5, 24],
      ] as const) {
        await testClock.advance(hours * HOUR_MS - 1);
        await offered(offerOf('5.0.0'));
        expect(downloads, 'a moment before').to.equal(tries - 1);
        await testClock.advance(1);
        await offered(offerOf('5.0.0'));
        expect(downloads).to.equal(tries);
      }
    });

    it('keeps nothing of a download that is not what was signed, so that the next one begins anew', async () => {
      download = (file) => writeFile(file, Buffer.alloc(BYTES.length));
      await offered(offerOf('5.0.0'));
      expect(await failure()).to.include({ code: 'CHECKSUM_MISMATCH' });
      expect(await readdir(path.join(dataDir, 'upgrades', 'downloads'))).to.deep.equal([]);
    });

    it('downloads nothing that is not signed by a trusted key', async () => {
      await offered(offerOf('5.0.0', { signature: 'AAAA' }));
      expect([downloads, (await failure())?.code]).to.deep.equal([0, 'SIGNATURE_INVALID']);
    });

    it('downloads nothing older than what was healthy here, except for a pin', async () => {
      await changeProven(dataDir, 'agent', (proven) => afterHealthy(proven, '5.1.0'));
      await offered(offerOf('5.0.0'));
      expect([downloads, (await failure())?.code]).to.deep.equal([0, 'DOWNGRADE']);
      await testClock.advance(HOUR_MS);
      await handedOver(offerOf('5.0.0', { pinned: true }));
      expect(asked[0]).to.include({ version: '5.0.0', isPinned: true });
    });
  });

  describe('while commands run', () => {
    const waitFor = async (upgrade = offerOf('5.0.0')) => {
      work.isIdle = false;
      updater.offered([upgrade]);
      await sleeping();
    };

    it('waits for ten minutes while more are accepted, and goes on when they have ended', async () => {
      await waitFor();
      await testClock.advance(10 * MINUTE_MS - 1);
      expect([work.isPaused, asked.length]).to.deep.equal([false, 0]);
      work.end();
      await eventually(
        () => asked.length,
        (count) => count === 1,
      );
      expect(work.isPaused).to.equal(true);
      await sleeping();
    });

    it('goes on at once if nothing runs, and waits for a command that begins at that moment', async () => {
      const ended = work.idle.bind(work);
      // Between the moment in which nothing ran and the pause, one more was accepted.
      work.idle = async () => {
        await ended();
        work.idle = ended;
      };
      const pause = work.pause.bind(work);
      work.pause = () => {
        pause();
        work.isIdle = false;
      };
      updater.offered([offerOf('5.0.0')]);
      await sleeping();
      expect([work.isPaused, asked.length]).to.deep.equal([true, 0]);
      work.end();
      await eventually(
        () => asked.length,
        (count) => count === 1,
      );
      await sleeping();
    });

    it('then accepts none for ten minutes, and goes on when they have ended', async () => {
      await waitFor();
      await testClock.advance(10 * MINUTE_MS);
      expect([work.isPaused, asked.length]).to.deep.equal([true, 0]);
      await testClock.advance(10 * MINUTE_MS - 1);
      work.end();
      await eventually(
        () => asked.length,
        (count) => count === 1,
      );
      await sleeping();
    });

    it('puts the upgrade off if one runs longer', async () => {
      await waitFor();
      await testClock.advance(20 * MINUTE_MS);
      await updater.settle();
      expect(await failure()).to.include({ code: 'WORK_IN_PROGRESS', isTemporary: true });
      expect([work.isPaused, asked.length]).to.deep.equal([false, 0]);
      // The release is here already, so the next attempt only waits again.
      await waitFor();
      expect(downloads).to.equal(1);
      work.end();
      await eventually(
        () => asked.length,
        (count) => count === 1,
      );
      await sleeping();
    });
  });

  describe('with a watchdog', () => {
    it('that agrees and does nothing, fails after a minute', async () => {
      await handedOver(offerOf('5.0.0'));
      await testClock.advance(MINUTE_MS - 1);
      expect(await failure()).to.equal(undefined);
      await testClock.advance(1);
      await updater.settle();
      expect(await failure()).to.include({ code: 'NO_ANSWER', isTemporary: true });
      expect(work.isPaused).to.equal(false);
    });

    for (const [code, isTemporary] of [
      ['TRIAL_RUNNING', true],
      ['NO_ANSWER', true],
      ['FAILED', true],
      ['DOWNGRADE', false],
      ['CHECKSUM_MISMATCH', false],
    ] as const) {
      it(`that refuses with ${code}, fails ${isTemporary ? 'for now' : 'for this release'}`, async () => {
        answer = async () => ({ code, message: 'No.' });
        await offered(offerOf('5.0.0'));
        expect(await failure()).to.include({ code, message: 'No.', isTemporary });
        expect(sent.at(-1)).to.include({ phase: 'failed', code });
        expect(work.isPaused).to.equal(false);
      });
    }

    it('is asked after three seconds if the server does not confirm the phases', async () => {
      send = (status) => {
        sent.push(status);
        return new Promise(() => {});
      };
      updater.offered([offerOf('5.0.0')]);
      await sleeping();
      await testClock.advance(2999);
      expect(asked).to.have.length(0);
      await testClock.advance(1);
      await eventually(
        () => asked.length,
        (count) => count === 1,
      );
      await sleeping();
    });
  });

  describe('after a restart in the middle of an attempt', () => {
    it('goes on with the same attempt, and counts no failure', async () => {
      const upgrade = offerOf('5.0.0');
      const attemptId = await leaveAttempt(upgrade);
      expect([await failuresOf(dataDir), phases()]).to.deep.equal([[], ['downloading']]);
      await handedOver(upgrade);
      expect(asked[0]).to.include({ attemptId });
      expect(new Set(sent.map((status) => status.attemptId))).to.deep.equal(new Set([attemptId]));
    });

    it('leaves the attempt if the watchdog has stopped it, without a failure', async () => {
      await handedOver(offerOf('5.0.0'));
      await updater.stop();
      expect(await readAttempt(dataDir)).to.include({ version: '5.0.0' });
      expect([await failuresOf(dataDir), phases().includes('failed')]).to.deep.equal([[], false]);
    });

    it('ends the attempt when the server has not offered its release three times in a row', async () => {
      const upgrade = offerOf('5.0.0');
      const attemptId = await leaveAttempt(upgrade);
      await offered();
      await offered();
      // It was offered again in between, and cannot be tried now.
      isAutomatic = false;
      await offered(upgrade);
      await offered();
      await offered();
      expect([(await readAttempt(dataDir))?.attemptId, phases()]).to.deep.equal([attemptId, ['downloading']]);
      await offered();
      expect(await readAttempt(dataDir)).to.equal(undefined);
      expect(sent.at(-1)).to.include({
        phase: 'failed',
        code: 'WITHDRAWN',
        targetVersion: '5.0.0',
        attemptId,
      });
      await offered();
      expect(phases()).to.have.length(2);
    });

    it('ends the attempt at once when another release is offered', async () => {
      const attemptId = await leaveAttempt(offerOf('5.0.0'));
      const other = Buffer.from('console.log("the next release")');
      download = (file) => writeFile(file, other);
      await handedOver(offerOf('5.0.1', {}, other));
      expect(asked[0]).to.include({ version: '5.0.1' }).and.not.include({ attemptId });
      expect(sent.filter(({ code }) => code === 'WITHDRAWN').map((status) => status.attemptId)).to.deep.equal(
        [attemptId],
      );
    });
  });

  it('asks the watchdog for nothing when it is stopped while the server confirms the phases', async () => {
    send = () => new Promise(() => {});
    updater.offered([offerOf('5.0.0')]);
    await sleeping();
    await updater.stop();
    expect([asked.length, await failuresOf(dataDir)]).to.deep.equal([0, []]);
    expect(await readAttempt(dataDir)).to.include({ version: '5.0.0' });
  });

  it('stops while it waits for commands, and the next process goes on', async () => {
    work.isIdle = false;
    updater.offered([offerOf('5.0.0')]);
    await sleeping();
    await updater.stop();
    expect([await failuresOf(dataDir), work.isPaused]).to.deep.equal([[], false]);
    begin();
    await handedOver(offerOf('5.0.0'));
    expect(downloads).to.equal(1);
  });
});
