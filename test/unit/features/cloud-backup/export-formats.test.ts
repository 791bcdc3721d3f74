import { expect } from 'chai';
import { iCalendarOf, vCardOf } from '../../../../src/features/cloud-backup/export-formats.ts';

const linesOf = (text: Buffer): string[] => text.toString().replaceAll('\r\n ', '').split('\r\n');
const card = (contact: object) => linesOf(vCardOf(Buffer.from(JSON.stringify(contact))));
const calendar = (event: object) =>
  linesOf(
    iCalendarOf(Buffer.from(JSON.stringify({ event, exceptions: [], cancelled: [], attachments: [] }))),
  );

describe('a contact as a vCard', () => {
  it('has the whole name, the addresses, the birthday and what else a vCard can say', () => {
    const contact = {
      displayName: 'Dr. Ada K. Lovelace Jr.',
      givenName: 'Ada',
      middleName: 'King',
      surname: 'Lovelace',
      title: 'Dr.',
      generation: 'Jr.',
      nickName: 'Addy, of course',
      birthday: '1815-12-10T11:59:00Z',
      companyName: 'Engines; Ltd.',
      department: 'Analysis',
      profession: 'Mathematician',
      categories: ['Friends', 'Science'],
      businessHomePage: 'https://engines.example/?a=1,2',
      homeAddress: {
        street: '12 St James\nSquare',
        city: 'London',
        postalCode: 'SW1',
        countryOrRegion: 'UK',
      },
      businessAddress: { street: '1 Dorset Street', state: 'London' },
      otherAddress: { city: 'Paris' },
      emailAddresses: [{ address: 'ada@example.com' }, { name: 'without one' }],
    };
    expect(card(contact)).to.include.members([
      'FN:Dr. Ada K. Lovelace Jr.',
      'N:Lovelace;Ada;King;Dr.;Jr.',
      'NICKNAME:Addy\\, of course',
      'BDAY:1815-12-10',
      'ORG:Engines\\; Ltd.;Analysis',
      'ROLE:Mathematician',
      'CATEGORIES:Friends,Science',
      'URL:https://engines.example/?a=1,2',
      'ADR;TYPE=HOME:;;12 St James\\nSquare;London;;SW1;UK',
      'ADR;TYPE=WORK:;;1 Dorset Street;;London;;',
      'ADR:;;;Paris;;;',
      'EMAIL;TYPE=INTERNET:ada@example.com',
    ]);
  });

  it('has no line for what the contact does not have', () => {
    expect(card({ displayName: 'Ada', homeAddress: {}, birthday: null, categories: null })).to.deep.equal([
      'BEGIN:VCARD',
      'VERSION:3.0',
      'FN:Ada',
      'N:;;;;',
      'END:VCARD',
      '',
    ]);
  });
});

describe('an event in iCalendar', () => {
  const utc = (dateTime: string) => ({ dateTime: `${dateTime}.0000000`, timeZone: 'UTC' });
  const daily = (range: object) => ({ pattern: { type: 'daily', interval: 1 }, range });

  it('names every attendee, also beside one without an address', () => {
    const attendees = [
      "o'brien@example.com",
      'jürgen@example.com',
      'a@b\r\nX-EVIL:1',
      'two words@example.com',
    ];
    const event = {
      id: '1',
      attendees: [{ emailAddress: null }, {}, ...attendees.map((address) => ({ emailAddress: { address } }))],
    };
    expect(calendar(event).filter((line) => /^ATT|EVIL/.test(line))).to.deep.equal([
      "ATTENDEE:mailto:o'brien@example.com",
      'ATTENDEE:mailto:jürgen@example.com',
    ]);
  });

  it('has its whole text, of which the preview is only the beginning', () => {
    const bodyPreview = 'Come';
    const plain = calendar({
      id: '1',
      bodyPreview,
      body: { contentType: 'text', content: 'Come,\r\nplease' },
    });
    expect(plain).to.include('DESCRIPTION:Come\\,\\nplease');
    const html = calendar({
      id: '1',
      bodyPreview,
      body: { contentType: 'html', content: '<p>Come,\r\nplease' },
    });
    expect(html).to.include.members(['DESCRIPTION:Come', 'X-ALT-DESC;FMTTYPE=text/html:<p>Come\\,\\nplease']);
    expect(calendar({ id: '1', bodyPreview })).to.include('DESCRIPTION:Come');
  });

  it('ends after its last day, which is a day where it was made', () => {
    const rule = (event: object) => calendar({ id: '1', ...event }).find((line) => line.startsWith('RRULE'));
    const until = (start: string, startDate: string) =>
      rule({ start: utc(start), recurrence: daily({ type: 'endDate', startDate, endDate: '2026-03-31' }) });
    expect(until('2026-03-02T09:00:00', '2026-03-02')).to.match(/UNTIL=20260331T235959Z$/);
    // In the evening in America, and in the morning in Australia.
    expect(until('2026-03-03T03:00:00', '2026-03-02')).to.match(/UNTIL=20260401T235959Z$/);
    expect(until('2026-03-01T22:00:00', '2026-03-02')).to.match(/UNTIL=20260330T235959Z$/);
    const wholeDay = { isAllDay: true, start: utc('2026-03-02T00:00:00') };
    const range = { type: 'endDate', startDate: '2026-03-02', endDate: '2026-03-31' };
    expect(rule({ ...wholeDay, recurrence: daily(range) })).to.match(/UNTIL=20260331$/);
    const never = daily({ ...range, endDate: '2026-99-99' });
    expect(rule({ start: utc('2026-03-02T09:00:00'), recurrence: never })).to.equal(
      'RRULE:FREQ=DAILY;INTERVAL=1',
    );
  });

  it('repeats on the days of UTC, where that is another day than where it was made', () => {
    const rule = (start: string, startDate: string, pattern: object) =>
      calendar({
        id: '1',
        start: utc(start),
        recurrence: { pattern: { interval: 1, ...pattern }, range: { type: 'noEnd', startDate } },
      }).find((line) => line.startsWith('RRULE'));
    const weekly = { type: 'weekly', daysOfWeek: ['sunday', 'monday'] };
    expect(rule('2026-03-02T09:00:00', '2026-03-02', weekly)).to.match(/;BYDAY=SU,MO$/);
    // In the evening in America, and in the morning in Australia.
    expect(rule('2026-03-03T03:00:00', '2026-03-02', weekly)).to.match(/;BYDAY=MO,TU$/);
    expect(rule('2026-03-01T22:00:00', '2026-03-02', weekly)).to.match(/;BYDAY=SA,SU$/);
    const monthly = { type: 'absoluteMonthly', dayOfMonth: 2 };
    expect(rule('2026-03-03T03:00:00', '2026-03-02', monthly)).to.match(/;BYMONTHDAY=3$/);
    expect(rule('2026-03-01T22:00:00', '2026-03-02', monthly)).to.match(/;BYMONTHDAY=1$/);
    const first = { type: 'absoluteMonthly', dayOfMonth: 1 };
    expect(rule('2026-02-28T22:00:00', '2026-03-01', first)).to.match(/;BYMONTHDAY=-1$/);
    // The day after the second Monday is not always the second Tuesday.
    const second = { type: 'relativeMonthly', index: 'second', daysOfWeek: ['monday'] };
    expect(rule('2026-03-09T12:00:00', '2026-03-09', second)).to.match(/;BYDAY=2MO$/);
    expect(rule('2026-03-10T03:00:00', '2026-03-09', second)).to.match(
      /;BYDAY=TU;BYMONTHDAY=9,10,11,12,13,14,15$/,
    );
    expect(rule('2026-03-08T22:00:00', '2026-03-09', second)).to.match(
      /;BYDAY=SU;BYMONTHDAY=7,8,9,10,11,12,13$/,
    );
    const last = { ...second, index: 'last' };
    expect(rule('2026-03-31T03:00:00', '2026-03-30', last)).to.match(
      /;BYDAY=TU;BYMONTHDAY=-6,-5,-4,-3,-2,-1,1$/,
    );
    expect(rule('2026-03-01T22:00:00', '2026-03-02', { ...second, index: 'first' })).to.match(
      /;BYDAY=SU;BYMONTHDAY=-1,1,2,3,4,5,6$/,
    );
    const yearly = { type: 'absoluteYearly', dayOfMonth: 31, month: 12 };
    expect(rule('2026-01-01T03:00:00', '2025-12-31', yearly)).to.match(/;BYMONTHDAY=1;BYMONTH=1$/);
  });

  it('of several weekdays is held on the first that comes, and in every second week as weeks begin', () => {
    const rule = (pattern: object) =>
      calendar({
        id: '1',
        start: utc('2026-03-02T09:00:00'),
        recurrence: { pattern, range: { type: 'noEnd', startDate: '2026-03-02' } },
      }).find((line) => line.startsWith('RRULE'));
    const daysOfWeek = ['monday', 'tuesday'];
    expect(rule({ type: 'relativeMonthly', interval: 1, index: 'last', daysOfWeek })).to.equal(
      'RRULE:FREQ=MONTHLY;INTERVAL=1;BYDAY=MO,TU;BYSETPOS=-1',
    );
    expect(rule({ type: 'weekly', interval: 2, firstDayOfWeek: 'sunday', daysOfWeek })).to.equal(
      'RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TU;WKST=SU',
    );
  });
});
