import { expect } from 'chai';
import fc from 'fast-check';
import {
  considered,
  groupKey,
  matchFault,
  policyFor,
} from '../../../../src/features/notifications/policy-match.ts';
import { isWithinHours, wallClock } from '../../../../src/features/notifications/weekly-hours.ts';

const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'Pacific/Apia',
];
const SEVERITIES = ['critical', 'high', 'medium', 'low', 'info'] as const;

const zone = fc.constantFrom(...ZONES);
const time = fc
  .tuple(fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 59 }))
  .map(([hour, minute]) => `${String(hour).padStart(2, '0')}:${String(minute).padStart(2, '0')}`);
const moment = fc.date({ min: new Date('2020-01-01'), max: new Date('2030-01-01'), noInvalidDate: true });
const days = fc.option(fc.uniqueArray(fc.integer({ min: 0, max: 6 }), { minLength: 1 }), { nil: undefined });

describe('weekly hours', () => {
  it('and those from their end to their beginning are all of the time, and never both', () => {
    fc.assert(
      fc.property(time, time, zone, moment, (from, to, timezone, at) => {
        fc.pre(from !== to);
        const inside = isWithinHours({ from, to, timezone }, at);
        expect(isWithinHours({ from: to, to: from, timezone }, at)).to.equal(!inside);
      }),
    );
  });

  it('of one day are those of all days, on that day and until its end behind midnight', () => {
    fc.assert(
      fc.property(time, time, zone, moment, days, (from, to, timezone, at, on) => {
        const isOn = isWithinHours({ from, to, timezone, ...(on === undefined ? {} : { days: on }) }, at);
        const every = isWithinHours({ from, to, timezone }, at);
        const { day, time: now } = wallClock(at, timezone);
        const begun = now >= from ? day : (day + 6) % 7;
        expect(isOn).to.equal(every && (on === undefined || on.includes(begun)));
      }),
    );
  });

  it('pass midnight: Friday night ends on Saturday morning', () => {
    const night = { days: [5], from: '22:00', to: '06:00', timezone: 'Europe/Berlin' };
    // 2026-06-05 is a Friday; Berlin is two hours ahead.
    expect(isWithinHours(night, new Date('2026-06-05T20:00:00Z'))).to.equal(true);
    expect(isWithinHours(night, new Date('2026-06-06T03:59:00Z'))).to.equal(true);
    expect(isWithinHours(night, new Date('2026-06-06T04:00:00Z'))).to.equal(false);
    expect(isWithinHours(night, new Date('2026-06-05T02:00:00Z'))).to.equal(false);
    expect(isWithinHours(night, new Date('2026-06-06T20:00:00Z'))).to.equal(false);
  });

  it('go by the clock on the wall when clocks are set', () => {
    const morning = { from: '02:30', to: '03:30', timezone: 'Europe/Berlin' };
    // In spring the clock goes from 02:00 to 03:00 at 01:00 UTC, so that half an hour is left.
    expect(isWithinHours(morning, new Date('2026-03-29T00:59:00Z'))).to.equal(false);
    expect(isWithinHours(morning, new Date('2026-03-29T01:00:00Z'))).to.equal(true);
    expect(isWithinHours(morning, new Date('2026-03-29T01:30:00Z'))).to.equal(false);
    // In autumn it shows 02:30 twice.
    expect(isWithinHours(morning, new Date('2026-10-25T00:30:00Z'))).to.equal(true);
    expect(isWithinHours(morning, new Date('2026-10-25T01:00:00Z'))).to.equal(false);
    expect(isWithinHours(morning, new Date('2026-10-25T01:30:00Z'))).to.equal(true);
  });

  it('from a time to the same time are whole days', () => {
    const sundays = { days: [0], from: '00:00', to: '00:00', timezone: 'UTC' };
    expect(isWithinHours(sundays, new Date('2026-06-07T00:00:00Z'))).to.equal(true);
    expect(isWithinHours(sundays, new Date('2026-06-07T23:59:59Z'))).to.equal(true);
    expect(isWithinHours(sundays, new Date('2026-06-08T00:00:00Z'))).to.equal(false);
  });
});

const alert = fc.record({
  orgId: fc.constantFrom('o1', 'o2'),
  severity: fc.constantFrom(...SEVERITIES),
  kind: fc.constantFrom('a', 'b', 'c'),
  siteId: fc.constantFrom(null, 's1', 's2'),
});
const some = <T>(...values: T[]) =>
  fc.option(fc.uniqueArray(fc.constantFrom(...values), { minLength: 1 }), { nil: undefined });
const match = fc.record({
  severities: some(...SEVERITIES),
  kinds: some('a', 'b', 'c'),
  orgIds: some('o1', 'o2'),
  siteIds: some('s1', 's2'),
});
type Given = { severities?: string[]; kinds?: string[]; orgIds?: string[]; siteIds?: string[] };
const without = (given: object) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Given as never;
const policies = fc
  .array(fc.record({ match, enabled: fc.boolean() }), { maxLength: 6 })
  .map((all) =>
    all.map(({ match: wanted, enabled }, n) => ({ id: `p${n}`, match: without(wanted), enabled })),
  );
const AT = new Date('2026-06-05T12:00:00Z');

describe('the policy that takes an alert', () => {
  it('is the first enabled one that fits, and all before it say why they do not', () => {
    fc.assert(
      fc.property(policies, alert, (all, one) => {
        const taken = policyFor(all, one, AT);
        const seen = considered(all, one, AT);
        const place = taken === undefined ? all.length : all.indexOf(taken);
        expect(seen.map(({ policy }) => policy)).to.deep.equal(all.slice(0, place + 1));
        for (const [n, { policy, fault }] of seen.entries()) {
          expect(fault === null).to.equal(n === place);
          expect(fault === null).to.equal(policy.enabled && matchFault(policy.match, one, AT) === undefined);
        }
      }),
    );
  });

  it('fits by all that it names: leaving a condition out only makes it fit more', () => {
    fc.assert(
      fc.property(
        match,
        alert,
        fc.constantFrom('severities', 'kinds', 'orgIds', 'siteIds'),
        (wanted, one, left) => {
          const fits = matchFault(without(wanted), one, AT) === undefined;
          const fewer = without({ ...wanted, [left]: undefined });
          if (fits) expect(matchFault(fewer, one, AT)).to.equal(undefined);
          expect(matchFault({}, one, AT)).to.equal(undefined);
        },
      ),
    );
  });

  it('by kinds takes those of all rules of a family, or of one', () => {
    const raised = { orgId: 'o1', severity: 'high', kind: 'log_event_0123456789ab', siteId: null } as const;
    const faultOf = (kind: string) => matchFault({ kinds: [kind] }, raised, new Date());
    expect(faultOf('log_event')).to.equal(undefined);
    expect(faultOf('log_event_0123456789ab')).to.equal(undefined);
    expect(faultOf('log_event_ba9876543210')).to.match(/other kinds/);
    expect(faultOf('software_change')).to.match(/other kinds/);
  });

  it('with sites is none of an alert that concerns a whole organization', () => {
    const one = { orgId: 'o1', severity: 'high', kind: 'a', siteId: null } as const;
    expect(matchFault({ siteIds: ['s1'] }, one, AT)).to.equal('It is for other sites.');
  });
});

describe('conversations', () => {
  it('have a key that fits its column, and differ by what they are grouped by', () => {
    const id = '01900000-0000-7000-8000-000000000001';
    const other = '01900000-0000-7000-8000-000000000002';
    const one = { id, subjectId: other, siteId: null, kind: 'k'.repeat(64) };
    const keys = (['none', 'device', 'site', 'rule'] as const).map((groupBy) => groupKey(groupBy, one));
    expect(new Set(keys).size).to.equal(4);
    for (const key of keys) expect(key.length).to.be.at.most(120);
  });
});
