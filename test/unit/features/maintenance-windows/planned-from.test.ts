import { expect } from 'chai';
import fc from 'fast-check';
import { plannedFrom } from '../../../../src/features/maintenance-windows/occurrences.ts';

const at = (minutes: number) => new Date(Date.UTC(2026, 0, 1) + minutes * 60_000);

describe('the time from which an occurrence is planned maintenance', () => {
  const startsAt = at(100);
  const occurrence = { startsAt, endsAt: at(200) };
  const from = (updated: number, followed: number | null, now: number) =>
    plannedFrom(occurrence, {
      updatedAt: at(updated),
      followedUntil: followed === null ? null : at(followed),
      now: at(now),
    });

  it('is its beginning if it was planned before, also for servers that come back in the middle', () => {
    expect(from(10, null, 98)).to.deep.equal(startsAt);
    expect(from(10, null, 150)).to.deep.equal(startsAt);
    // Of the occurrence before.
    expect(from(10, 90, 98)).to.deep.equal(startsAt);
  });

  it('is not before a person has planned it', () => {
    expect(from(130, null, 131)).to.deep.equal(at(130));
  });

  it('is now for a device that joins while it is in progress', () => {
    expect(from(10, 200, 150)).to.deep.equal(at(150));
  });

  it('never lies before the beginning, nor after both the plan and the present', () => {
    const minutes = fc.integer({ min: 0, max: 300 });
    fc.assert(
      fc.property(minutes, fc.option(minutes), minutes, (updated, followed, now) => {
        const planned = from(Math.min(updated, now), followed, now);
        expect(planned >= startsAt).to.equal(true);
        expect(planned <= at(Math.max(now, 100))).to.equal(true);
      }),
    );
  });
});
