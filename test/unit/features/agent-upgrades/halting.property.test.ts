import { expect } from 'chai';
import fc from 'fast-check';
import {
  failureReason,
  type HaltWhen,
  isSilent,
  type Outcomes,
  type Silence,
} from '../../../../src/features/agent-upgrades/next-step.ts';

const WHEN: HaltWhen = { failedPercent: 2, silentMinutes: 30, minDevices: 20 };
const SOAKING = { isSoaked: false };
const outcomes = (more: Partial<Outcomes>): Outcomes => ({
  healthy: 0,
  failed: 0,
  failuresInARow: 0,
  underWay: 1000,
  ...more,
});

const counts = fc.integer({ min: 0, max: 3000 });
const anyOutcomes: fc.Arbitrary<Outcomes> = fc
  .record({ healthy: counts, failed: counts, run: counts, underWay: fc.oneof(fc.constant(0), counts) })
  .map(({ run, ...rest }) => ({ ...rest, failuresInARow: rest.failed === 0 ? 0 : (run % rest.failed) + 1 }));
const anyWhen: fc.Arbitrary<HaltWhen> = fc.record({
  failedPercent: fc.integer({ min: 1, max: 10_000 }).map((share) => share / 100),
  silentMinutes: fc.constant(30),
  minDevices: fc.integer({ min: 1, max: 200 }),
});

describe('the failures that halt a rollout', () => {
  const EXAMPLES: [title: string, Partial<Outcomes>, expected: string | undefined][] = [
    ['are none among none', {}, undefined],
    ['are never a single one, whatever its share', { failed: 1, failuresInARow: 1, underWay: 0 }, undefined],
    ['are three in a row, at once', { failed: 3, failuresInARow: 3 }, 'failed_in_a_row'],
    [
      'are two of two, if nothing else is expected',
      { failed: 2, failuresInARow: 2, underWay: 0 },
      'failed_share',
    ],
    [
      'are not two of few, while more are under way',
      { healthy: 10, failed: 2, failuresInARow: 1 },
      undefined,
    ],
    ['are two of a hundred', { healthy: 98, failed: 2, failuresInARow: 1 }, 'failed_share'],
    ['are not two of a hundred and one', { healthy: 99, failed: 2, failuresInARow: 1 }, undefined],
  ];
  for (const [title, given, expected] of EXAMPLES) {
    it(title, () => expect(failureReason(outcomes(given), WHEN, SOAKING)).to.equal(expected));
  }

  it('count by their share at the end of the time, however few have finished', () => {
    const few = outcomes({ healthy: 10, failed: 2, failuresInARow: 1 });
    expect(failureReason(few, WHEN, { isSoaked: true })).to.equal('failed_share');
  });

  it('are those of the rule as it is written', () => {
    fc.assert(
      fc.property(anyOutcomes, anyWhen, fc.boolean(), (found, when, isSoaked) => {
        const { healthy, failed, failuresInARow, underWay } = found;
        const isJudged = isSoaked || underWay === 0 || healthy + failed >= when.minDevices;
        const hasShare = failed / (healthy + failed) >= when.failedPercent / 100 - 1e-12;
        const isHalted = failuresInARow >= 3 || (isJudged && failed >= 2 && hasShare);
        expect(failureReason(found, when, { isSoaked }) !== undefined).to.equal(isHalted);
      }),
      { numRuns: 5000 },
    );
  });

  it('stay so with more of them', () => {
    fc.assert(
      fc.property(
        anyOutcomes,
        anyWhen,
        fc.boolean(),
        fc.integer({ min: 1, max: 50 }),
        (found, when, isSoaked, more) => {
          if (failureReason(found, when, { isSoaked }) === undefined) return;
          const worse = { ...found, failed: found.failed + more };
          expect(failureReason(worse, when, { isSoaked })).to.not.equal(undefined);
        },
      ),
    );
  });
});

describe('the silence that halts a rollout', () => {
  const silence = (upgradedSilent: number, upgraded: number, othersSilent = 0, others = 1800): Silence => ({
    upgraded,
    upgradedSilent,
    others,
    othersSilent,
  });
  const EXAMPLES: [title: string, Silence, expected: boolean][] = [
    ['is none of one device', silence(1, 1), false],
    ['is two of ten, where the others are all heard of', silence(2, 10), false],
    ['is three of ten', silence(3, 10), true],
    ['is all of a first wave', silence(100, 100), true],
    ['is a twentieth of a wave of two hundred', silence(10, 200), true],
    ['is not what the others do as well in the evening', silence(60, 200, 540), false],
    ['is what they do not do', silence(120, 200, 540), true],
    ['is not what chance explains', silence(9, 20, 540), false],
    ['is not said to be where there is nothing to compare with', silence(1000, 1000, 0, 0), false],
    ['needs nearly all where there is little to compare with', silence(10, 10, 0, 3), true],
  ];
  for (const [title, given, expected] of EXAMPLES) {
    it(title, () => expect(isSilent(given)).to.equal(expected));
  }

  const anySilence = fc
    .tuple(
      counts,
      counts,
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
    )
    .map(([upgraded, others, share, othersShare]) =>
      silence(Math.floor(upgraded * share), upgraded, Math.floor(others * othersShare), others),
    );

  it('never is less than two devices and three percent more than the others explain', () => {
    fc.assert(
      fc.property(anySilence, (found) => {
        if (!isSilent(found)) return;
        const { upgraded, upgradedSilent, others, othersSilent } = found;
        expect(upgradedSilent).to.be.at.least(2);
        if (others > 0) expect(upgradedSilent / upgraded - othersSilent / others).to.be.at.least(0.03);
      }),
      { numRuns: 5000 },
    );
  });

  it('stays so with one more that is silent, or one more of the others that is not', () => {
    fc.assert(
      fc.property(anySilence, (found) => {
        if (!isSilent(found)) return;
        if (found.upgradedSilent < found.upgraded) {
          expect(isSilent({ ...found, upgradedSilent: found.upgradedSilent + 1 })).to.equal(true);
        }
        if (found.othersSilent > 0) {
          expect(isSilent({ ...found, othersSilent: found.othersSilent - 1 })).to.equal(true);
        }
      }),
      { numRuns: 5000 },
    );
  });

  it('is seldom seen if there is none', () => {
    // 300 rounds in which a third of all devices is closed, whatever they run.
    const closed = (devices: number, seed: number) =>
      fc.sample(fc.integer({ min: 0, max: 2 }), { numRuns: devices, seed }).filter((one) => one === 0).length;
    const alarms = Array.from({ length: 300 }, (_round, seed) =>
      isSilent(silence(closed(100, seed), 100, closed(900, seed + 1000), 900)),
    ).filter(Boolean);
    expect(alarms.length).to.be.at.most(3);
  });
});
