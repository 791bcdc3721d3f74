import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { writeOfferState } from '../../../../../src/agent/capabilities/update/offer.ts';
import {
  readUpgradeState,
  upgradeSentences,
  type UpgradeState,
} from '../../../../../src/agent/capabilities/update/upgrade-state.ts';
import {
  writeAttempt,
  writeTrial,
  recordFailure,
  note,
} from '../../../../../src/agent/os/releases/upgrade-files.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';
import { useTestClock } from '../../../../support/use-test-clock.ts';

const HOUR_MS = 3_600_000;
const RELEASE = { component: 'agent', version: '5.0.0' } as const;
const NOTHING: UpgradeState = { automatic: true, offer: null, attempt: null, trial: null, lastFailure: null };

describe('the state of the upgrades of a machine', () => {
  const testClock = useTestClock({ isRunning: false });
  let dataDir: string;
  let remove: () => Promise<void>;
  beforeEach(async () => {
    ({ folder: dataDir, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  const state = (automatic = true) => readUpgradeState(dataDir, automatic);
  const at = (ms = 0) => new Date(testClock.now() + ms).toISOString();
  const fail = (more: Partial<Parameters<typeof recordFailure>[1]> = {}) =>
    recordFailure(dataDir, {
      ...RELEASE,
      sha256: 'a'.repeat(64),
      code: 'CRASHED',
      message: 'It ended.',
      isTemporary: false,
      ...more,
    });

  it('is empty before there was any', async () => {
    expect([await state(), await state(false)]).to.deep.equal([NOTHING, { ...NOTHING, automatic: false }]);
  });

  it('has the offer, without why it was not installed', async () => {
    await writeOfferState(dataDir, { ...RELEASE, failure: 'It ended.', nextTryAt: at() });
    expect((await state()).offer).to.deep.equal(RELEASE);
  });

  it('has the attempt with the newest of its own steps', async () => {
    const attemptId = randomUUID();
    await writeAttempt(dataDir, { ...RELEASE, attemptId, sha256: 'a'.repeat(64) });
    note(dataDir, { step: 'settled', ...RELEASE, attemptId: randomUUID() });
    expect((await state()).attempt).to.deep.equal({ ...RELEASE, attemptId, step: null, stepAt: null });
    note(dataDir, { step: 'download_started', ...RELEASE, attemptId });
    await testClock.advance(1000);
    note(dataDir, { step: 'staged', ...RELEASE, attemptId });
    const stepAt = at();
    await testClock.advance(1000);
    note(dataDir, { step: 'settled', ...RELEASE, attemptId: randomUUID() });
    expect((await state()).attempt).to.deep.equal({ ...RELEASE, attemptId, step: 'staged', stepAt });
  });

  it('has the trial and how often it was started', async () => {
    const more = { from: null, fromVersion: '1.0.0', attemptId: randomUUID(), sha256: 'a', starts: 2 };
    await writeTrial(dataDir, { ...RELEASE, ...more });
    expect((await state()).trial).to.deep.equal({ ...RELEASE, starts: 2 });
  });

  it('has the newest failure, and when that release is tried again unless another one is offered', async () => {
    await fail({ sha256: 'b'.repeat(64), version: '4.0.0' });
    await testClock.advance(1000);
    await fail();
    const failed = { release: RELEASE, code: 'CRASHED', message: 'It ended.', at: at() };
    const waits = { ...failed, nextTryAt: at(HOUR_MS) };
    expect((await state()).lastFailure, 'the server offers it again at that time').to.deep.equal(waits);
    for (const other of [
      { component: 'watchdog', version: '5.0.0' },
      { component: 'agent', version: '5.0.1' },
    ]) {
      await writeOfferState(dataDir, other);
      expect((await state()).lastFailure?.nextTryAt, other.component).to.equal(null);
    }
    await writeOfferState(dataDir, RELEASE);
    expect((await state()).lastFailure).to.deep.equal(waits);
    expect((await state(false)).lastFailure?.nextTryAt, 'not by itself').to.equal(null);
  });

  it('has the later recorded of two failures at the same time', async () => {
    await fail({ sha256: 'b'.repeat(64), version: '4.0.0' });
    await fail();
    expect((await state()).lastFailure?.release).to.deep.equal(RELEASE);
  });
});

describe('the state of the upgrades of a machine, in sentences,', () => {
  const NOW = Date.parse('2026-01-31T08:00:00.000Z');
  const sentences = (more: Partial<UpgradeState>) => upgradeSentences({ ...NOTHING, ...more }, NOW);
  const failure = {
    release: RELEASE,
    code: 'CRASHED',
    message: 'It ended.',
    at: '2026-01-31T07:00:00.000Z',
    nextTryAt: null,
  };
  const happened =
    'The last upgrade that failed was to the agent 5.0.0, at 2026-01-31T07:00:00.000Z (CRASHED): It ended.';

  it('shows the offered release and whether it will be installed', () => {
    expect(sentences({})).to.deep.equal(['The server offers no other release.']);
    expect(sentences({ offer: RELEASE, automatic: false })).to.deep.equal([
      'The server offers the agent 5.0.0.',
      'Automatic upgrades are off.',
    ]);
  });

  it('shows the running attempt and the trial', () => {
    const attempt = { ...RELEASE, attemptId: 'x', step: null, stepAt: null };
    const [, first] = sentences({ attempt });
    expect(first).to.equal('The upgrade of the agent to 5.0.0 is running.');
    const step = { ...attempt, step: 'staged', stepAt: '2026-01-31T07:59:00.000Z' };
    expect(sentences({ attempt: step, trial: { ...RELEASE, starts: 1 } })).to.deep.equal([
      'The server offers no other release.',
      'The upgrade of the agent to 5.0.0 is running: staged at 2026-01-31T07:59:00.000Z.',
      'The agent 5.0.0 is on trial.',
    ]);
  });

  it('says what has failed, and when it is tried again', () => {
    const last = (more: object, offer: UpgradeState['offer'] = RELEASE) =>
      sentences({ offer, lastFailure: { ...failure, ...more } })[1];
    expect(last({})).to.equal(`${happened} The server offers another release now.`);
    expect(sentences({ automatic: false, lastFailure: failure })[2]).to.equal(
      `${happened} It is not retried automatically.`,
    );
    expect(last({ nextTryAt: '2026-01-31T09:00:00.000Z' }, null)).to.equal(
      `${happened} It is tried again at 2026-01-31T09:00:00.000Z at the earliest, if the server offers it then.`,
    );
    expect(last({ release: null })).to.match(/^The last upgrade that failed was to a release, at /);
    for (const [next, when] of [
      ['2026-01-31T08:00:00.000Z', 'with the next heartbeat'],
      ['2026-01-31T08:00:00.001Z', 'at 2026-01-31T08:00:00.001Z at the earliest'],
    ]) {
      expect(last({ nextTryAt: next })).to.equal(`${happened} It is tried again ${when}.`);
    }
  });
});
