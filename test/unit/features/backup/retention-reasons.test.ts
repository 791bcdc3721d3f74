import { expect } from 'chai';
import {
  ALWAYS_KEPT_DAYS,
  decideRetention,
  type HeldSnapshot,
  mayGo,
  type RetentionSituation,
  type Retention,
} from '../../../../src/features/backup/retention.ts';

const DAY_MS = 86_400_000;
const NOW = new Date('2026-06-30T12:00:00.000Z');
const SITUATION: RetentionSituation = { now: NOW, timeZone: 'UTC', isFrozen: false };
const snapshot = (id: string, ageMs: number, more: Partial<HeldSnapshot> = {}): HeldSnapshot => ({
  id,
  receivedAt: new Date(NOW.getTime() - ageMs),
  hasLegalHold: false,
  immutableUntil: null,
  ...more,
});
const days = (count: number) => count * DAY_MS;
/** A policy by which hardly anything stays. */
const SHORT: Retention = { retentionDays: 1 };

describe('the reasons why a snapshot stays', () => {
  const newest = snapshot('newest', 0);
  const reasonsOf = (one: HeldSnapshot, policy = SHORT, more: Partial<RetentionSituation> = {}) =>
    decideRetention([newest, one], policy, { ...SITUATION, ...more }).get(one.id);

  it('are several for the newest one', () => {
    const policy = {
      keepLast: 1,
      keepDaily: 1,
      keepWeekly: 1,
      keepMonthly: 1,
      keepYearly: 1,
      retentionDays: 1,
    };
    expect(decideRetention([newest], policy, SITUATION).get('newest')).to.deep.equal([
      'newest',
      'recent',
      'last',
      'retention_days',
      'daily',
      'weekly',
      'monthly',
      'yearly',
    ]);
  });

  it('are none for an old one', () => {
    expect(reasonsOf(snapshot('old', days(30)))).to.deep.equal([]);
  });

  it('are that nothing goes before seven days have passed', () => {
    const limit = days(ALWAYS_KEPT_DAYS);
    expect(reasonsOf(snapshot('a', limit - 1))).to.deep.equal(['recent']);
    expect(reasonsOf(snapshot('a', limit))).to.deep.equal([]);
  });

  it('are the days of the policy', () => {
    const policy = { retentionDays: 20 };
    expect(reasonsOf(snapshot('a', days(20) - 1), policy)).to.deep.equal(['retention_days']);
    expect(reasonsOf(snapshot('a', days(20)), policy)).to.deep.equal([]);
    expect(reasonsOf(snapshot('a', days(20) - 1), { keepLast: 1 })).to.deep.equal([]);
  });

  it('are a legal hold, and a time of immutability that is not over', () => {
    expect(reasonsOf(snapshot('a', days(30), { hasLegalHold: true }))).to.deep.equal(['legal_hold']);
    const until = (ms: number) => ({ immutableUntil: new Date(NOW.getTime() + ms) });
    expect(reasonsOf(snapshot('a', days(30), until(1)))).to.deep.equal(['immutable']);
    expect(reasonsOf(snapshot('a', days(30), until(0)))).to.deep.equal([]);
  });

  it('are that everything is frozen, and that there is no policy', () => {
    expect(reasonsOf(snapshot('a', days(30)), SHORT, { isFrozen: true })).to.deep.equal(['frozen']);
    expect(reasonsOf(snapshot('a', days(30)), {})).to.deep.equal(['no_policy']);
    expect(reasonsOf(snapshot('a', days(30)), { immutableDays: 3 })).to.deep.equal(['no_policy']);
    expect(reasonsOf(snapshot('a', days(30)), { keepYearly: 0 })).to.deep.equal([]);
  });

  it('are the last ones by number, with the greater id first if two came at once', () => {
    const all = [snapshot('b', days(30)), snapshot('c', days(40)), snapshot('a', days(30)), newest];
    const reasons = decideRetention(all, { keepLast: 2 }, SITUATION);
    expect([...reasons].map(([id, why]) => [id, why.includes('last')])).to.deep.equal([
      ['newest', true],
      ['b', true],
      ['a', false],
      ['c', false],
    ]);
  });

  it('are the newest of each of the newest days, weeks, months and years, by the clock of the zone', () => {
    const all = ['06-28T22:30', '06-28T21:30', '06-22T10:00', '05-31T10:00', '05-01T10:00'].map((text, n) =>
      snapshot(String(n), NOW.getTime() - Date.parse(`2026-${text}:00.000Z`)),
    );
    const keptBy = (policy: Retention, reason: string, timeZone = 'Europe/Berlin') =>
      [...decideRetention(all, policy, { ...SITUATION, timeZone })]
        .filter(([, why]) => (why as string[]).includes(reason))
        .map(([id]) => id)
        .join('');
    expect(keptBy({ keepDaily: 2 }, 'daily')).to.equal('01');
    expect(keptBy({ keepDaily: 2 }, 'daily', 'UTC')).to.equal('02');
    expect(keptBy({ keepWeekly: 2 }, 'weekly')).to.equal('01');
    expect(keptBy({ keepWeekly: 2 }, 'weekly', 'UTC')).to.equal('03');
    expect(keptBy({ keepMonthly: 5 }, 'monthly')).to.equal('03');
    expect(keptBy({ keepYearly: 5 }, 'yearly')).to.equal('0');
  });
});

describe('snapshots that may go', () => {
  const going = (snapshots: HeldSnapshot[], policy: Retention) =>
    [...mayGo(snapshots, policy, SITUATION)].sort().join('');
  const found = { isFound: true };

  it('are those without a reason to stay', () => {
    expect(
      going([snapshot('a', days(30)), snapshot('b', days(31)), snapshot('c', days(32))], { keepLast: 2 }),
    ).to.equal('c');
  });

  it('are not those that only found ones have pushed out', () => {
    const all = [snapshot('x', days(20), found), snapshot('y', days(21), found), snapshot('a', days(30))];
    expect(going(all, { keepLast: 1 })).to.equal('y');
    expect(going([...all, snapshot('b', days(31))], { keepLast: 1 })).to.equal('by');
  });

  it('are found ones as well, and those that stay push nothing of jobs out', () => {
    expect(going([snapshot('a', days(20)), snapshot('x', days(30), found)], { keepLast: 1 })).to.equal('x');
    expect(going([snapshot('a', days(20)), snapshot('x', days(30), found)], { keepLast: 2 })).to.equal('');
  });

  it('are decided for each series by itself, and stay if one series needs them', () => {
    const of = (...series: string[]) => ({ series });
    const all = [
      snapshot('a', days(20), of('one')),
      snapshot('b', days(21), of('two')),
      snapshot('c', days(22), of('one', 'two')),
      snapshot('d', days(23), of('one', 'three')),
    ];
    expect(going(all, { keepLast: 1 })).to.equal('c');
    expect(going([snapshot('a', days(20)), snapshot('b', days(21), of('one'))], { keepLast: 1 })).to.equal(
      '',
    );
    // Two series with the same newest snapshot are two, and each has a second one.
    const both = [
      snapshot('a', days(20), of('one', 'two')),
      snapshot('b', days(21), of('one')),
      snapshot('c', days(22), of('two')),
    ];
    expect(going(both, { keepLast: 2 })).to.equal('');
    expect(going(both, { keepLast: 1 })).to.equal('bc');
    // A series that several snapshots hold by other names is not decided by the first of them alone.
    expect(
      going([snapshot('a', days(20), of('one', 'one')), snapshot('b', days(21), of('one'))], SHORT),
    ).to.equal('b');
  });
});
