import { expect } from 'chai';
import {
  failuresOf,
  forgetFailure,
  nextTryAt,
  recordFailure,
} from '../../../../../src/agent/os/releases/upgrade-files.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';

const NOW = Date.parse('2026-01-31T08:00:00.000Z');
const HOUR_MS = 3_600_000;
const failed = (sha256: string, more: object = {}) => ({
  sha256,
  component: 'agent',
  version: '5.0.0',
  code: 'FAILED',
  message: 'It failed.',
  isTemporary: false,
  ...more,
});

describe('the failed attempts of a machine', () => {
  let dataDir: string;
  let remove: () => Promise<void>;
  beforeEach(async () => {
    ({ folder: dataDir, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  const counts = async () => (await failuresOf(dataDir)).map(({ sha256, count }) => [sha256, count]);

  it('are none at first', async () => {
    expect(await failuresOf(dataDir)).to.deep.equal([]);
  });

  it('are kept by release, each with how often it failed in a row in the same way, and how long it waits', async () => {
    expect(await recordFailure(dataDir, failed('a'), NOW)).to.deep.equal({ retryInSeconds: 3600 });
    expect(await recordFailure(dataDir, failed('b', { isTemporary: true }), NOW)).to.deep.equal({
      retryInSeconds: 0,
    });
    expect(await recordFailure(dataDir, failed('a'), NOW)).to.deep.equal({ retryInSeconds: 6 * 3600 });
    expect(await counts()).to.deep.equal([
      ['b', 1],
      ['a', 2],
    ]);
    expect((await failuresOf(dataDir))[1]).to.deep.equal({ ...failed('a'), count: 2, at: NOW });
    // It is counted anew where the way has changed.
    await recordFailure(dataDir, failed('a', { isTemporary: true }), NOW);
    await recordFailure(dataDir, failed('a', { isTemporary: true }), NOW);
    await recordFailure(dataDir, failed('a'), NOW);
    expect(await counts()).to.deep.equal([
      ['b', 1],
      ['a', 1],
    ]);
  });

  it('count once for one attempt, with the wait that is left', async () => {
    const attempt = failed('a', { attemptId: 'first' });
    await recordFailure(dataDir, attempt, NOW);
    expect(await recordFailure(dataDir, attempt, NOW + 1_800_500)).to.deep.equal({ retryInSeconds: 1800 });
    expect(await counts()).to.deep.equal([['a', 1]]);
    expect((await failuresOf(dataDir))[0]).to.include({ attemptId: 'first', at: NOW });
    await recordFailure(dataDir, failed('a', { attemptId: 'second' }), NOW);
    await recordFailure(dataDir, failed('a'), NOW);
    await recordFailure(dataDir, failed('a'), NOW);
    expect(await counts()).to.deep.equal([['a', 4]]);
    expect((await failuresOf(dataDir))[0]).to.not.have.property('attemptId');
  });

  it('wait no time below zero, and none if the clock was set back', async () => {
    const attempt = failed('a', { attemptId: 'first' });
    await recordFailure(dataDir, attempt, NOW);
    expect(await recordFailure(dataDir, attempt, NOW + 2 * HOUR_MS)).to.deep.equal({ retryInSeconds: 0 });
    expect(await recordFailure(dataDir, attempt, NOW - 1)).to.deep.equal({ retryInSeconds: 0 });
    const [failure] = await failuresOf(dataDir);
    expect(nextTryAt(failure!, NOW) - NOW).to.equal(HOUR_MS);
    expect(nextTryAt(failure!, NOW - 1)).to.equal(NOW - 1);
  });

  it('are the last twenty', async () => {
    for (let n = 0; n < 22; n++) await recordFailure(dataDir, failed(`${n}`), NOW);
    const kept = (await failuresOf(dataDir)).map(({ sha256 }) => sha256);
    expect([kept.length, kept[0], kept.at(-1)]).to.deep.equal([20, '2', '21']);
  });

  it('are forgotten for one release alone', async () => {
    await recordFailure(dataDir, failed('a'), NOW);
    await recordFailure(dataDir, failed('b'), NOW);
    await forgetFailure(dataDir, 'c');
    expect(await counts()).to.have.length(2);
    await forgetFailure(dataDir, 'a');
    expect(await counts()).to.deep.equal([['b', 1]]);
  });
});
