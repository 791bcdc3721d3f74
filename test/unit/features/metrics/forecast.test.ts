import { expect } from 'chai';
import { forecastOf, type UsedPoint } from '../../../../src/features/metrics/forecast.ts';

const HOUR = 3_600_000;
const GIB = 2 ** 30;
/** A point every six hours for two weeks. @param used  GiB after so many days */
const history = (used: (day: number) => number, total = 100, days = 14): UsedPoint[] =>
  Array.from({ length: days * 4 }, (_, n) => ({
    at: n * 6 * HOUR,
    used: used(n / 4) * GIB,
    total: total * GIB,
  }));

describe('the forecast for a volume', () => {
  it('says in how many days it is full at the pace of the last weeks', () => {
    const { fullInDays, confidence } = forecastOf(history((day) => 50 + 2 * day))!;
    expect(fullInDays).to.be.closeTo((100 - 50 - 2 * 13.75) / 2, 0.1);
    expect(confidence).to.equal(1);
  });

  it('is not moved by a few odd points, such as a large file for some hours', () => {
    const noisy = history((day) => (day === 5 || day === 13.75 ? 95 : 50 + 2 * day));
    expect(forecastOf(noisy)!.fullInDays).to.be.closeTo(11, 1);
  });

  it('is none if the volume is still, shrinks, or goes up and down', () => {
    expect(forecastOf(history(() => 50))).to.equal(null);
    expect(forecastOf(history((day) => 80 - day))).to.equal(null);
    expect(forecastOf(history((day) => 50 + 20 * Math.sin(day)))).to.equal(null);
  });

  it('is none from a short history, and none for what is years away', () => {
    expect(forecastOf(history((day) => 50 + day, 100, 2))).to.equal(null);
    expect(forecastOf(history((day) => 50 + day / 100))).to.equal(null);
    expect(forecastOf([])).to.equal(null);
  });

  it('begins anew when the volume is given another size', () => {
    const before = history((day) => 50 + 3 * day, 100);
    const after = history((day) => 92 + day, 200).map(({ at, ...rest }) => ({
      ...rest,
      at: at + 14 * 24 * HOUR,
    }));
    expect(forecastOf([...before, ...after])!.fullInDays).to.be.closeTo(200 - 92 - 13.75, 0.5);
    expect(forecastOf([...before, ...after.slice(0, 4)])).to.equal(null);
  });

  it('is now for a volume that is full', () => {
    expect(forecastOf(history((day) => Math.min(100, 90 + day)))?.fullInDays).to.equal(0);
  });
});
