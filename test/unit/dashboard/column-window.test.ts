import { expect } from 'chai';
import fc from 'fast-check';
import { columnsBetween } from '../../../src/dashboard/ui/column-window.ts';

describe('the columns in view', () => {
  it('are those of which a part lies between the edges', () => {
    const widths = [100, 50, 200, 80];
    expect(columnsBetween(widths, 0, 100)).to.deep.equal({ from: 0, to: 1 });
    expect(columnsBetween(widths, 99, 151)).to.deep.equal({ from: 0, to: 3 });
    expect(columnsBetween(widths, 100, 150)).to.deep.equal({ from: 1, to: 2 });
    expect(columnsBetween(widths, -50, 1000)).to.deep.equal({ from: 0, to: 4 });
    expect(columnsBetween(widths, 2000, 3000), 'none').to.deep.equal({ from: 4, to: 4 });
    expect(columnsBetween([], 0, 100)).to.deep.equal({ from: 0, to: 0 });
  });

  it('are for all widths and edges those of a search one by one', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 60 }),
        fc.integer({ min: -500, max: 10_000 }),
        fc.integer({ min: 1, max: 3000 }),
        (widths, left, room) => {
          const { from, to } = columnsBetween(widths, left, left + room);
          let edge = 0;
          const inView = widths.flatMap((width, place) => {
            edge += width;
            return edge > left && edge - width < left + room ? [place] : [];
          });
          expect(widths.map((_, place) => place).slice(from, to)).to.deep.equal(inView);
        },
      ),
    );
  });
});
