import { expect } from 'chai';
import { localSeconds, localTime } from '../../../../src/cli/remote/local-time.ts';

describe('a time for people', () => {
  it('names the zone as its people do, and the offset where they have no name for it', () => {
    const times: [string, string, string][] = [
      ['2026-11-29T13:03:59.999Z', 'Europe/Berlin', '2026-11-29 14:03 CET'],
      ['2026-06-29T13:03:00Z', 'Europe/Berlin', '2026-06-29 15:03 CEST'],
      ['2026-11-29T00:03:00Z', 'America/New_York', '2026-11-28 19:03 EST'],
      ['2026-11-29T13:03:00Z', 'UTC', '2026-11-29 13:03 UTC'],
      ['2026-11-29T00:00:00+05:00', 'Asia/Kathmandu', '2026-11-29 00:45 UTC+5:45'],
    ];
    for (const [iso, zone, text] of times) expect(localTime(iso, zone)).to.equal(text);
  });

  it('tells the two hours apart that a clock shows twice', () => {
    const hours = ['2026-10-25T00:30:15Z', '2026-10-25T01:30:15Z'];
    expect(hours.map((iso) => localSeconds(iso, 'Europe/Berlin'))).to.deep.equal([
      '2026-10-25 02:30:15 CEST',
      '2026-10-25 02:30:15 CET',
    ]);
  });

  it('is left as it is where it is no time', () => {
    expect(localTime('never')).to.equal('never');
  });
});
