import { expect } from 'chai';
import fc from 'fast-check';
import { lengthOf, schedule, subjectOf } from './schedule.ts';

const HOUR_MS = 3_600_000;
const seeds = fc.integer({ min: 1, max: 2 ** 31 });

describe('the schedule of random faults', () => {
  it('is the same for the same seed, and another one for another seed', () => {
    fc.assert(
      fc.property(seeds, (seed) => {
        const once = schedule(seed, { totalMs: HOUR_MS });
        expect(schedule(seed, { totalMs: HOUR_MS })).to.deep.equal(once);
        expect(schedule(seed + 1, { totalMs: HOUR_MS })).not.to.deep.equal(once);
      }),
      { numRuns: 20 },
    );
  });

  it('lasts as long as it was asked to, and a longer one begins as a shorter one', () => {
    fc.assert(
      fc.property(seeds, fc.integer({ min: 1000, max: HOUR_MS }), (seed, totalMs) => {
        const rounds = schedule(seed, { totalMs });
        const lengths = rounds.map(lengthOf);
        const sum = lengths.reduce((total, length) => total + length, 0);
        expect(sum).to.be.at.least(totalMs);
        expect(sum - (lengths.at(-1) ?? 0)).to.be.below(totalMs);
        const longer = schedule(seed, { totalMs: totalMs * 2 });
        expect(longer.slice(0, rounds.length)).to.deep.equal(rounds);
      }),
      { numRuns: 50 },
    );
  });

  it('has one or two faults at a time, never two of one subject', () => {
    fc.assert(
      fc.property(seeds, (seed) => {
        for (const { faults } of schedule(seed, { totalMs: HOUR_MS })) {
          expect(faults.length).to.be.within(1, 2);
          expect(new Set(faults.map(subjectOf)).size).to.equal(faults.length);
        }
      }),
      { numRuns: 20 },
    );
  });

  it('comes to every kind of fault on every subject within an hour', () => {
    const faults = schedule(7, { totalMs: HOUR_MS }).flatMap((round) => round.faults);
    const met = new Set(faults.map((fault) => `${fault.kind} ${subjectOf(fault)}`));
    // For each of three servers: killed, frozen, and three links that fail in three ways; and two services.
    expect(met.size).to.equal(3 * (2 + 3 * 3) + 2);
  });

  it('keeps to its limits', () => {
    const faults = schedule(7, {
      totalMs: HOUR_MS,
      longestMs: 1000,
      mayRestartPostgres: false,
      without: ({ kind }) => kind === 'black-hole',
    }).flatMap((round) => round.faults);
    expect(faults.length).to.be.above(100);
    expect(Math.max(...faults.map(({ lastsMs }) => lastsMs))).to.be.at.most(1000);
    expect(faults.map(subjectOf)).not.to.include('postgres');
    expect(faults.map(({ kind }) => kind)).not.to.include('black-hole');
  });
});
