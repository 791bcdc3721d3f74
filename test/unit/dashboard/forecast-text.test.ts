import { expect } from 'chai';
import { forecastText } from '../../../src/dashboard/features/devices/forecast-text.ts';

describe('the forecast of a volume', () => {
  const text = (fullInDays: number, confidence = 1) => forecastText({ fullInDays, confidence });

  it('is given in no more detail than is known', () => {
    expect(text(0.4)).to.equal('Likely full within a day');
    expect(text(1.2)).to.equal('Likely full in about 1 day');
    expect(text(12.3)).to.equal('Likely full in about 12 days');
    expect(text(30)).to.equal('Likely full in about 4 weeks');
    expect(text(200)).to.equal('Likely full in about 7 months');
  });

  it('says how sure it is', () => {
    expect(text(12, 0.8)).to.equal('Perhaps full in about 12 days');
    expect(forecastText(null)).to.equal('Does not grow clearly');
    expect(forecastText(undefined)).to.equal('Does not grow clearly');
  });
});
