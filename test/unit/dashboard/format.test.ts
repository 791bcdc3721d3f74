import { expect } from 'chai';
import { releaseTargetOf } from '../../../src/protocol/index.ts';
import { endsOfDay, formatField, formatRelative, partSentence } from '../../../src/dashboard/ui/format.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

describe('what people read on the pages of the dashboard', () => {
  it('says how long ago something was without a calendar that it does not know', () => {
    const now = Date.parse('2026-11-24T12:00:00Z');
    const ago = (ms: number) => formatRelative(new Date(now - ms), now);
    expect(ago(5000)).to.equal('now');
    for (const [ms, figure] of [
      [41 * HOUR, '41'],
      [47 * HOUR, '47'],
      [2 * DAY, '2'],
      [45 * DAY, '45'],
      [70 * DAY, '2'],
      [400 * DAY, '13'],
      [800 * DAY, '2'],
    ] as const) {
      expect(ago(ms), `${ms}`).to.match(new RegExp(`^${figure} .*ago$`));
    }
  });

  it('says how long something still lasts by the nearest figure, so that a week does not begin with six days', () => {
    const now = Date.parse('2026-11-24T12:00:00Z');
    const ahead = (ms: number) => formatRelative(new Date(now + ms), now);
    expect(ahead(7 * DAY - 5000)).to.equal('in 7 days');
    expect(ahead(7 * DAY + 5000)).to.equal('in 7 days');
    expect(ahead(61 * 60_000)).to.equal('in 1 hr.');
    expect(ahead(5000)).to.equal('now');
  });

  it('says of a list that it is a part, and of a whole one nothing', () => {
    expect(partSentence(64, { total: 70 })).to.equal('Only the first 64 of 70 are listed.');
    expect(partSentence(20, { total: 31, which: 'newest' })).to.equal('Only the newest 20 of 31 are listed.');
    expect(partSentence(100, { isCut: true })).to.equal('Only the first 100 are listed.');
    for (const whole of [{}, { total: 64 }, { total: undefined }, { isCut: false }]) {
      expect(partSentence(64, whole)).to.equal(undefined);
    }
  });

  it('takes a day as that of this computer, from its first to its last millisecond', () => {
    const { begin = '', end = '' } = endsOfDay('2026-11-24');
    expect(new Date(begin).getHours()).to.equal(0);
    expect(new Date(begin).getDate()).to.equal(24);
    expect(new Date(end).getDate()).to.equal(24);
    expect(new Date(Date.parse(end) + 1).getDate()).to.equal(25);
    for (const none of [undefined, '', '2026-13-40', 'yesterday']) expect(endsOfDay(none)).to.deep.equal({});
  });

  it('names fields by words', () => {
    expect(formatField('roleId')).to.equal('Role');
    expect(formatField('settings.contact.email')).to.equal('Settings contact email');
    expect(formatField('query.page')).to.equal('Page');
  });

  it('knows a file of a release by its name, and no other', () => {
    expect(releaseTargetOf('muster-agent-linux-x64.cjs')).to.deep.include({
      component: 'agent',
      os: 'linux',
    });
    expect(releaseTargetOf('muster-watchdog-windows-x64.exe')).to.deep.include({ component: 'watchdog' });
    for (const other of ['SHA256SUMS', 'muster-agent-beos-x64.cjs', 'x-muster-agent-linux-x64', '']) {
      expect(releaseTargetOf(other), other).to.equal(undefined);
    }
  });
});
