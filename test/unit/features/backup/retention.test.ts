import { expect } from 'chai';
import fc from 'fast-check';
import {
  ALWAYS_KEPT_DAYS,
  decideRetention,
  type HeldSnapshot,
  mayGo,
  type Retention,
} from '../../../../src/features/backup/retention.ts';
import { localTime } from '../../../../src/features/backup/schedule.ts';

const DAY_MS = 86_400_000;
const NOW = new Date('2026-11-22T12:00:00Z');

const snapshot = (daysAgo: number, given: Partial<HeldSnapshot> = {}): HeldSnapshot => ({
  id: `s${daysAgo}`,
  receivedAt: new Date(NOW.getTime() - daysAgo * DAY_MS),
  hasLegalHold: false,
  immutableUntil: null,
  ...given,
});
const keptIds = (snapshots: readonly HeldSnapshot[], policy: Retention, isFrozen = false) =>
  [...decideRetention(snapshots, policy, { now: NOW, timeZone: 'UTC', isFrozen })]
    .filter(([, reasons]) => reasons.length > 0)
    .map(([id]) => id);
const days = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

describe('the retention of snapshots', () => {
  const year = days(0, 400).map((one) => snapshot(one));

  it('keeps the newest of each of the newest days, weeks, months and years', () => {
    const kept = keptIds(year, { keepDaily: 10, keepMonthly: 3, keepYearly: 2 });
    // Days 0 to 9, the last of September and October (53 and 22 days ago), and of the year before (326).
    expect(kept).to.have.members([...days(0, 9).map((one) => `s${one}`), 's22', 's53', 's326']);
    // 2026-11-22 is a Sunday: each week ends one week earlier.
    expect(keptIds(year, { keepWeekly: 4 })).to.have.members([
      ...days(0, ALWAYS_KEPT_DAYS - 1).map((one) => `s${one}`),
      's7',
      's14',
      's21',
    ]);
  });

  it('keeps everything without a policy, and while it is frozen', () => {
    expect(keptIds(year, {})).to.have.length(year.length);
    expect(keptIds(year, { immutableDays: 5 })).to.have.length(year.length);
    expect(keptIds(year, { keepLast: 1 }, true)).to.have.length(year.length);
  });

  it('lets neither a legal hold nor an immutable snapshot go', () => {
    const held = [
      ...year,
      snapshot(500, { hasLegalHold: true }),
      snapshot(501, { immutableUntil: new Date(NOW.getTime() + 1) }),
      snapshot(502, { immutableUntil: NOW }),
    ];
    const kept = keptIds(held, { keepLast: 1 });
    expect(kept).to.include.members(['s500', 's501']);
    expect(kept).not.to.include('s502');
  });

  it('is not moved by a flood: of the snapshots of one day only the newest takes a place', () => {
    const flood = Array.from({ length: 1000 }, (_, index) =>
      snapshot(0, { id: `f${index}`, receivedAt: new Date(NOW.getTime() - index) }),
    );
    const kept = keptIds([...flood, ...days(8, 14).map((one) => snapshot(one))], { keepDaily: 8 });
    expect(kept).to.include.members(days(8, 14).map((one) => `s${one}`));
  });

  it('counts days by the clock of the zone', () => {
    const late = snapshot(9, { id: 'late', receivedAt: new Date('2026-11-10T23:30:00Z') });
    const early = snapshot(9, { id: 'early', receivedAt: new Date('2026-11-10T12:00:00Z') });
    const inZone = (timeZone: string) =>
      decideRetention([late, early], { keepDaily: 2 }, { now: NOW, timeZone, isFrozen: false });
    expect(inZone('UTC').get('early')).to.deep.equal([]);
    // In Berlin one of them is of the next day.
    expect(inZone('Europe/Berlin').get('early')).to.deep.equal(['daily']);
  });

  const snapshots = fc
    .uniqueArray(fc.integer({ min: 0, max: 900 * 24 }), { maxLength: 80 })
    .map((hours) =>
      hours.map((hour) => snapshot(hour / 24, { id: `h${hour}`, hasLegalHold: hour % 17 === 0 })),
    );
  const optional = fc.option(fc.integer({ min: 1, max: 30 }), { nil: undefined });
  const policies = fc
    .record({
      keepLast: optional,
      keepDaily: optional,
      keepWeekly: optional,
      keepMonthly: optional,
      keepYearly: optional,
      retentionDays: optional,
    })
    .map((policy) => JSON.parse(JSON.stringify(policy)) as Retention);

  it('keeps exactly what a second, naive reading of the rules keeps', () => {
    fc.assert(
      fc.property(snapshots, policies, (held, policy) => {
        expect([...keptIds(held, policy)].sort()).to.deep.equal(naive(held, policy).sort());
      }),
      { numRuns: 150 },
    );
  });

  it('never keeps less for a policy that keeps more', () => {
    fc.assert(
      fc.property(
        snapshots,
        policies,
        fc.constantFrom('keepDaily', 'keepLast', 'keepMonthly'),
        (held, policy, field) => {
          const more = { ...policy, [field]: (policy[field] ?? 0) + 1 };
          if (Object.keys(policy).length === 0) return;
          expect(keptIds(held, more)).to.include.members(keptIds(held, policy));
        },
      ),
      { numRuns: 100 },
    );
  });
});

/** Each rule by itself, as the documentation states it. */
function naive(held: readonly HeldSnapshot[], policy: Retention): string[] {
  const sorted = [...held].sort((a, b) => b.receivedAt.getTime() - a.receivedAt.getTime());
  const newestOf = (count: number | undefined, bucket: (one: HeldSnapshot) => string) => {
    const buckets = [...new Set(sorted.map(bucket))].slice(0, count ?? 0);
    return buckets.map((name) => sorted.find((one) => bucket(one) === name)?.id ?? '');
  };
  const local = ({ receivedAt }: HeldSnapshot) => localTime(receivedAt, 'UTC');
  const monday = (one: HeldSnapshot) => {
    const date = new Date(one.receivedAt);
    date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7));
    return date.toISOString().slice(0, 10);
  };
  const age = (one: HeldSnapshot) => (NOW.getTime() - one.receivedAt.getTime()) / DAY_MS;
  const kept = [
    ...sorted.slice(0, 1).map(({ id }) => id),
    ...sorted.filter((one) => age(one) < ALWAYS_KEPT_DAYS || one.hasLegalHold).map(({ id }) => id),
    ...sorted.slice(0, policy.keepLast ?? 0).map(({ id }) => id),
    ...sorted.filter((one) => age(one) < (policy.retentionDays ?? 0)).map(({ id }) => id),
    ...newestOf(policy.keepDaily, (one) => one.receivedAt.toISOString().slice(0, 10)),
    ...newestOf(policy.keepWeekly, monday),
    ...newestOf(policy.keepMonthly, (one) => `${local(one).year} ${local(one).month}`),
    ...newestOf(policy.keepYearly, (one) => String(local(one).year)),
    ...(Object.keys(policy).length === 0 ? sorted.map(({ id }) => id) : []),
  ];
  return [...new Set(kept)];
}

describe('the retention of snapshots that do not all hold the same', () => {
  it('decides for each thing that they hold', () => {
    const held = [
      snapshot(10, { series: ['a'] }),
      snapshot(11, { series: ['a'] }),
      snapshot(12, { series: ['a'] }),
      snapshot(20, { series: ['a', 'b'] }),
      snapshot(30, { series: ['b'] }),
      snapshot(40, { series: ['b', 'a'] }),
      snapshot(50, { series: ['c'] }),
    ];
    const outdated = (all: readonly HeldSnapshot[]) =>
      [...mayGo(all, { keepLast: 2 }, { now: NOW, timeZone: 'UTC', isFrozen: false })].sort();
    expect(outdated(held)).to.deep.equal(['s12', 's40']);
    expect(outdated(held.map((one) => ({ ...one, series: undefined })))).to.deep.equal(
      ['s12', 's20', 's30', 's40', 's50'].sort(),
    );
  });
});
