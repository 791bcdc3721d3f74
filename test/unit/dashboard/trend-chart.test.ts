import { expect } from 'chai';
import fc from 'fast-check';
import {
  barsOf,
  CHART_HEIGHT,
  CHART_WIDTH,
  daysOf,
} from '../../../src/dashboard/features/overview/trend-chart.ts';

describe('the chart of a figure of each day', () => {
  it('has each day up to the last one, also over the end of a month, and knows which were not counted', () => {
    const counted = [
      { day: '2026-02-27', devices: 3 },
      { day: '2026-03-01', devices: 0 },
    ];
    expect(daysOf(counted, { figure: 'devices', last: '2026-03-01', days: 4 })).to.deep.equal([
      { day: '2026-02-26', value: null },
      { day: '2026-02-27', value: 3 },
      { day: '2026-02-28', value: null },
      { day: '2026-03-01', value: 0 },
    ]);
  });

  it('keeps a figure that the reader may not see apart from nothing', () => {
    const [day] = daysOf([{ day: '2026-03-01', alerts: null }], {
      figure: 'alerts',
      last: '2026-03-01',
      days: 1,
    });
    expect(day).to.deep.equal({ day: '2026-03-01', value: null });
    expect(barsOf([{ day: '2026-03-01', value: null }])).to.deep.equal([]);
  });

  it('draws a bar for each day with something, within the picture, the greatest one of full height', () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.nat(1_000_000)), { maxLength: 400 }), (values) => {
        const bars = barsOf(values.map((value, index) => ({ day: String(index), value })));
        const positive = values.flatMap((value, index) => (value ? [{ day: String(index), value }] : []));
        expect(bars.map(({ day, value }) => ({ day, value }))).to.deep.equal(positive);
        for (const { x, y, width, height } of bars) {
          expect(x).to.be.at.least(0);
          expect(x + width).to.be.at.most(CHART_WIDTH + 1e-6);
          expect(y + height).to.be.closeTo(CHART_HEIGHT, 1e-6);
          expect(height).to.be.within(1.5, CHART_HEIGHT);
        }
        if (bars.length > 0) expect(Math.max(...bars.map(({ height }) => height))).to.equal(CHART_HEIGHT);
      }),
    );
  });
});
