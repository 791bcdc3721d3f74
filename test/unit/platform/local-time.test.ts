import { expect } from 'chai';
import { clocksAt } from '../../../src/platform/local-time.ts';

describe('the clocks of a time zone', () => {
  const { DateTimeFormat } = Intl;
  afterEach(() => {
    Intl.DateTimeFormat = DateTimeFormat;
  });

  it('are prepared once, in however many ways its name is spelled', () => {
    let prepared = 0;
    Intl.DateTimeFormat = class extends DateTimeFormat {
      constructor(...options: ConstructorParameters<typeof DateTimeFormat>) {
        super(...options);
        prepared += 1;
      }
    } as typeof DateTimeFormat;
    const noon = Date.UTC(2026, 10, 30, 12);
    const spellings = ['Pacific/Chatham', 'pacific/chatham', 'PACIFIC/CHATHAM', 'pACIFIC/cHATHAM'];
    const shown = spellings.map((name) => new Date(clocksAt(noon, name)).toISOString());
    expect(new Set(shown)).to.deep.equal(new Set(['2026-12-01T01:45:00.000Z']));
    expect(prepared).to.equal(1);
  });
});
