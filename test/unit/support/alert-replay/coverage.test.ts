import { expect } from 'chai';
import { Coverage } from '../../../support/alert-replay/coverage.ts';

describe('which devices a rule of a replay covers', () => {
  const BEGIN = 100;
  const device = { deviceId: 'one' };

  it('says when it did not, and that what stood then was resolved', () => {
    const coverage = new Coverage(BEGIN, [device]);
    expect(coverage.has(device)).to.equal(true);
    expect(coverage.unseenOf(device)).to.deep.equal([]);
    coverage.turn(device, false, 200);
    expect(coverage.has(device)).to.equal(false);
    expect(coverage.leftAt(device)).to.equal(200);
    coverage.turn(device, true, 300);
    expect(coverage.leftAt(device)).to.equal(undefined);
    expect(coverage.unseenOf(device)).to.deep.equal([{ from: 200, to: 300, ends: true }]);
  });

  it('knows one that came later, before which nothing stood', () => {
    const coverage = new Coverage(BEGIN);
    expect(coverage.has(device)).to.equal(false);
    expect(coverage.leftAt(device)).to.equal(undefined);
    coverage.turn(device, true, 300);
    expect(coverage.unseenOf(device)).to.deep.equal([{ from: BEGIN, to: 300 }]);
  });
});
