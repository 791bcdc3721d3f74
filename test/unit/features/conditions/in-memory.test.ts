import { expect } from 'chai';
import fc from 'fast-check';
import { type MatchableDevice, parseConditions } from '../../../../src/features/conditions/index.ts';
import { alone, condition, group } from '../../../support/conditions/any-rule.ts';
import { evaluate, type PlainCondition, type PlainGroup } from '../../../support/conditions/referee.ts';
import * as fleets from '../../../support/conditions/rule-fleet.ts';

const { CUSTOM_KINDS, NOW, NUMBERS, TIMES, WORDS } = fleets;

const parsed = (rule: PlainGroup | PlainCondition) => {
  const answer = parseConditions(rule, { customKinds: CUSTOM_KINDS });
  if (!answer.ok) throw new Error(JSON.stringify([answer.faults, rule]));
  return answer.conditions;
};
const drawn = fleets.device.map((one): MatchableDevice => ({ ...one, id: 'device' }));
const sample = fc.sample(drawn, { numRuns: 45, seed: 9 });
const EXAMPLE = sample[0]!;

/** In the database they are compared with the same referee (test/server/features/conditions/both-backends.test.ts). */
describe('a filter in memory', () => {
  it('means what a referee makes of it, whatever the rule and the device', () => {
    fc.assert(
      fc.property(
        fc.oneof(condition.map(alone), group),
        fc.array(drawn, { minLength: 3, maxLength: 6 }),
        (rule, devices) => {
          const conditions = parsed(rule);
          for (const device of devices) {
            expect(conditions.matches(device, NOW)).to.equal(evaluate(rule, device, NOW));
          }
        },
      ),
      { numRuns: 200, seed: 11 },
    );
  });

  it('means the same at every end of a range, and for every text beside every other', () => {
    const numbers = [
      'equals',
      'notEquals',
      'greaterThan',
      'greaterThanOrEquals',
      'lessThan',
      'lessThanOrEquals',
    ];
    const days = [...new Set(TIMES.map((ms) => new Date(ms).toISOString().slice(0, 10)))];
    const instants = [...days, ...TIMES.map((ms) => new Date(ms).toISOString())];
    const table: [fields: string[], operators: string[], values: readonly unknown[]][] = [
      [['hardware.cpuCores', 'custom.count'], numbers, NUMBERS],
      [['daysSinceLastSeen', 'daysSinceEnrolled'], numbers, [0, 1, 1.5, 7, -1, 0.1 + 0.2, 1 / 24, 1e300]],
      [['lastSeenAt', 'custom.day'], [...numbers, 'before', 'after'], instants],
      [['displayName'], ['equals', 'notEquals', 'contains', 'notContains', 'startsWith', 'endsWith'], WORDS],
    ];
    const devices = sample.map((one, index) => ({
      ...one,
      displayName: WORDS[index % WORDS.length] ?? null,
      lastSeenAt: index === 44 ? null : (TIMES[index % TIMES.length] ?? null),
      enrolledAt: TIMES[index % TIMES.length] ?? NOW,
      hardware: { ...one.hardware, cpuCores: [1, 2, 4, 16][index % 4] ?? 1 },
      customFields: { count: NUMBERS[index % NUMBERS.length], day: days[index % days.length] },
    }));
    let compared = 0;
    for (const [fields, operators, values] of table) {
      for (const field of fields) {
        for (const operator of operators) {
          for (const value of values) {
            const rule = { field, operator, value };
            const conditions = parsed(alone(rule));
            const wrong = devices.filter((one) => conditions.matches(one, NOW) !== evaluate(rule, one, NOW));
            if (wrong.length > 0) expect.fail(JSON.stringify([rule, wrong[0]]));
            compared += devices.length;
          }
        }
      }
    }
    expect(compared).to.be.greaterThan(40_000);
  });

  it('shows for each condition whether it holds and what it saw, as people read it', () => {
    const device = {
      ...EXAMPLE,
      hostname: 'anvil',
      lastSeenAt: NOW - 36 * 3_600_000,
      hardware: { cpuCores: 4 },
      software: Array.from({ length: 150 }, (_, n) => `program ${n}`),
      customFields: { flag: true },
      groupIds: [],
    };
    const rule: PlainGroup = {
      operator: 'AND',
      conditions: [
        { field: 'hostname', operator: 'startsWith', value: 'AN' },
        {
          operator: 'OR',
          conditions: [
            { field: 'lastSeenAt', operator: 'before', value: '2020-01-01' },
            { field: 'daysSinceLastSeen', operator: 'greaterThan', value: 1 },
          ],
        },
        { field: 'hardware.cpuCores', operator: 'equals', value: 4 },
        { field: 'custom.flag', operator: 'equals', value: true },
        { field: 'custom.count', operator: 'isNull' },
        { field: 'software.installed', operator: 'contains', value: 'program 7' },
        { field: 'groupId', operator: 'isNull' },
      ],
    };
    const explained = parsed(rule).explain(device, NOW, { root: 'filter' });
    expect(explained.map(({ path, field, matched }) => [path, field, matched])).to.deep.equal([
      ['filter.conditions.0', 'hostname', true],
      ['filter.conditions.1.conditions.0', 'lastSeenAt', false],
      ['filter.conditions.1.conditions.1', 'daysSinceLastSeen', true],
      ['filter.conditions.2', 'hardware.cpuCores', true],
      ['filter.conditions.3', 'custom.flag', true],
      ['filter.conditions.4', 'custom.count', true],
      ['filter.conditions.5', 'software.installed', true],
      ['filter.conditions.6', 'groupId', true],
    ]);
    expect(explained.map(({ value }) => (Array.isArray(value) ? value.length : value))).to.deep.equal([
      'anvil',
      '2026-03-30T00:00:00.000Z',
      1.5,
      4,
      true,
      null,
      100,
      null,
    ]);
    expect(
      parsed(rule)
        .explain(device, NOW, { atMost: 2 })
        .map(({ path }) => path),
    ).to.deep.equal(['conditions.conditions.0', 'conditions.conditions.1.conditions.0']);
  });

  it('says what it depends on: time, groups, the ids that it names, and its weight', () => {
    const of = (...conditions: PlainCondition[]) => parsed({ operator: 'OR', conditions });
    const isRecent = { field: 'lastSeenAt', operator: 'withinLast', value: { amount: 1, unit: 'days' } };
    expect(of(isRecent).dependsOnTime).to.equal(true);
    expect(of({ field: 'daysSinceEnrolled', operator: 'lessThan', value: 3 }).dependsOnTime).to.equal(true);
    expect(of({ field: 'lastSeenAt', operator: 'before', value: '2026-01-01' }).dependsOnTime).to.equal(
      false,
    );
    const days = (operator: string, value: unknown) =>
      of({ field: 'daysSinceLastSeen', operator, value }).dependsOnTime;
    for (const operator of [
      'equals',
      'notEquals',
      'greaterThan',
      'greaterThanOrEquals',
      'lessThanOrEquals',
    ]) {
      expect(days(operator, 3), operator).to.equal(true);
    }
    expect(days('between', { from: 1, to: 3 })).to.equal(true);
    expect(of({ field: 'daysSinceLastSeen', operator: 'isNull' }).dependsOnTime).to.equal(false);
    expect(of({ field: 'hostname', operator: 'equals', value: 'a' }, isRecent).dependsOnTime).to.equal(true);
    const [site, one, other] = [fleets.SITES[0]!, fleets.GROUPS[0]!, fleets.GROUPS[1]!];
    const named = of(
      { field: 'siteId', operator: 'equals', value: site },
      { field: 'groupId', operator: 'in', value: [one, other] },
      { field: 'hostname', operator: 'equals', value: one },
      { field: 'siteId', operator: 'isNull' },
    );
    expect(named.references('at').map(({ kind, id, path }) => [kind, id, path()])).to.deep.equal([
      ['siteId', site, 'at.conditions.0.value'],
      ['groupId', one, 'at.conditions.1.value'],
      ['groupId', other, 'at.conditions.1.value'],
    ]);
    expect([named.readAnyGroup, of({ field: 'groupId', operator: 'isNotNull' }).readAnyGroup]).to.deep.equal([
      false,
      true,
    ]);
    expect([of(isRecent, isRecent).count, of(isRecent, isRecent).weight]).to.deep.equal([2, 2]);
    const pattern = of({ field: 'hostname', operator: 'matches', value: 'a{5}' });
    expect(pattern.weight).to.be.greaterThan(1);
    expect(pattern.patterns).to.have.length(1);
    expect(of(isRecent).patterns).to.deep.equal([]);
  });
});

describe('a filter as SQL', () => {
  const sqlOf = (rule: PlainGroup | PlainCondition) =>
    parsed(rule).toSql({ now: NOW, tenant: 'd.org_id = mine', prefix: 'part' });
  const isNamed = (value: string): PlainCondition => ({ field: 'hostname', operator: 'equals', value });
  const hasTag = (value: string): PlainCondition => ({ field: 'tags', operator: 'hasAny', value: [value] });
  /** Groups within each other, each with another operator than the one around it. */
  const nested = (levels: number, innermost: PlainCondition): PlainGroup | PlainCondition => {
    let rule: PlainGroup | PlainCondition = innermost;
    for (let level = 0; level < levels; level++) {
      rule = { operator: level % 2 === 0 ? 'AND' : 'OR', conditions: [rule, isNamed(`${level}`)] };
    }
    return rule;
  };

  it('binds every value, in the order of its places', () => {
    const { text, values, named, readsPresence } = sqlOf({
      operator: 'AND',
      conditions: [
        isNamed('a'),
        {
          operator: 'OR',
          conditions: [{ field: 'displayName', operator: 'endsWith', value: '5%_\\' }, isNamed('c')],
        },
        { field: 'hardware.cpuCores', operator: 'between', value: { from: 1, to: 2 } },
        { field: 'siteId', operator: 'in', value: [...fleets.SITES] },
      ],
    });
    expect(text.split('?').length - 1).to.equal(values.length);
    expect(text).to.equal(
      "((d.hostname) = ?::text and ((d.display_name) ilike ? or (d.hostname) = ?::text) and ((d.hardware ->> 'cpuCores')::float8) between ?::float8 and ?::float8 and (d.site_id) = any(?::uuid[]))",
    );
    expect(values).to.deep.equal(['a', '%5\\%\\_\\\\', 'c', 1, 2, fleets.SITES]);
    expect([named, readsPresence]).to.deep.equal([[], false]);
  });

  it('is divided if it is nested too deeply, each part within the tenant and with the presence that it reads', () => {
    const status: PlainCondition = { field: 'status', operator: 'equals', value: 'online' };
    expect(sqlOf(nested(39, status)).named).to.deep.equal([]);
    const { named, text, values, readsPresence } = sqlOf(nested(85, status));
    expect(named.map(({ name }) => name)).to.deep.equal(['part0', 'part1']);
    expect(named[0]?.text).to.match(
      /^select d\.id from devices d left join device_presence p .* where d\.org_id = mine and \(/,
    );
    expect(named[1]?.text).to.match(/^select d\.id from devices d {2}where d\.org_id = mine and /);
    expect(named[1]?.text).to.contain('(d.id in (select id from part0)) is true');
    expect(text).to.contain('(d.id in (select id from part1)) is true');
    expect(readsPresence, 'only a part reads it').to.equal(false);
    expect(sqlOf(alone(status)).readsPresence).to.equal(true);
    for (const part of [...named, { text, values }]) {
      expect(part.text.split('?').length - 1).to.equal(part.values.length);
    }
    expect([...named, { values }].flatMap((part) => part.values)).to.have.length(86);
  });

  it('keeps many subqueries from becoming joins, and few not', () => {
    const many = (count: number) =>
      sqlOf({ operator: 'OR', conditions: Array.from({ length: count }, (_, n) => hasTag(`${n}`)) }).text;
    expect(many(6)).to.not.contain('is true');
    expect(many(7).split('is true')).to.have.length(8);
    expect(
      sqlOf({ operator: 'OR', conditions: Array.from({ length: 9 }, (_, n) => isNamed(`${n}`)) }).text,
    ).to.not.contain('is true');
  });

  it('is true for a missing value if the condition is a negated one', () => {
    const text = (field: string, operator: string, ...value: unknown[]) =>
      sqlOf(alone({ field, operator, ...(value.length === 0 ? {} : { value: value[0] }) })).text;
    expect(text('displayName', 'notContains', 'a')).to.match(/is not true/);
    expect(text('displayName', 'contains', 'a')).to.not.match(/is not true/);
    expect(text('tags', 'isEmpty')).to.match(/is not true/);
    expect(text('tags', 'isNotEmpty')).to.not.match(/is not true/);
    expect(text('hostname', 'notIn', ['a', 'b'])).to.match(/is not true/);
    expect(text('software.notInstalled', 'contains', 'a')).to.match(/is not true/);
    expect(text('software.installed', 'contains', 'a')).to.not.match(/is not true/);
    expect(text('lastSeenAt', 'notWithinLast', { amount: 1, unit: 'days' })).to.match(/is not true/);
  });
});
