import { expect } from 'chai';
import { lineOf } from '../../../src/dashboard/features/devices/day-line.ts';

describe('the chart of a day', () => {
  it('has a level for each hour, and breaks where there are no figures', () => {
    expect(lineOf([0, 100, null, 50])).to.equal('M0.0 19.0L24.0 19.0L24.0 1.0L48.0 1.0M72.0 10.0L96.0 10.0');
  });

  it('stays within its frame, and is nothing without figures', () => {
    expect(lineOf([null, 250, -3])).to.equal('M32.0 1.0L64.0 1.0L64.0 19.0L96.0 19.0');
    expect(lineOf([null, null])).to.equal('');
    expect(lineOf([])).to.equal('');
  });
});
