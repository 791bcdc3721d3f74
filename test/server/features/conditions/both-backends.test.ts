import { expect } from 'chai';
import fc from 'fast-check';
import {
  conditionsText,
  type MatchableDevice,
  parseConditions,
  whereMatching,
} from '../../../../src/features/conditions/index.ts';
import { openPool, type Db } from '../../../../src/platform/db/pool.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import { withTenant } from '../../../../src/platform/db/transaction.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';
import { alone, condition, group } from '../../../support/conditions/any-rule.ts';
import { evaluate, type PlainCondition, type PlainGroup } from '../../../support/conditions/referee.ts';
import * as fleets from '../../../support/conditions/rule-fleet.ts';

const { CUSTOM_KINDS, NOW, NUMBERS, ORGS, PARTNER, TIMES } = fleets;

const TENANT: TenantScope = {
  scope: 'partner',
  userId: null,
  partnerId: PARTNER,
  orgAccess: 'listed',
  orgIds: ORGS,
};

describe('conditions', () => {
  let database: TestDatabase;
  let db: Db;

  before(async () => {
    database = await createTestDatabase();
    await fleets.prepareDatabase(database);
    db = openPool(database.appUrl, { max: 2, name: 'conditions' });
  });
  after(async () => {
    await db.destroy();
    await database.drop();
  });

  const inDatabase = async (rules: (PlainGroup | PlainCondition)[]) =>
    withTenant(db, TENANT, async (tx) => {
      const found: string[][] = [];
      for (const rule of rules) {
        const query = tx('devices as d').joinRaw(
          'left join device_presence p on p.device_id = d.id and p.org_id = d.org_id',
        );
        const rows = await whereMatching(query.select<{ id: string }[]>('d.id'), parsed(rule), {
          caller: TENANT,
          now: NOW,
        });
        found.push(rows.map((row) => row.id).sort());
      }
      return found;
    });
  function parsed(rule: PlainGroup | PlainCondition) {
    const answer = parseConditions(rule, { customKinds: CUSTOM_KINDS });
    if (!answer.ok) throw new Error(JSON.stringify([answer.faults, rule]));
    return answer.conditions;
  }
  const idsOf = (fleet: readonly MatchableDevice[], test: (device: MatchableDevice) => boolean) =>
    fleet
      .filter(test)
      .map((device) => device.id)
      .sort();

  // In parts, since a test has two seconds.
  for (const part of [1, 2, 3]) {
    it(`mean the same in the database, in memory, and to a referee who reads them as they stand (${part})`, async () => {
      let matched = 0;
      let asked = 0;
      await fc.assert(
        fc.asyncProperty(
          fc.array(fleets.device, { minLength: 12, maxLength: 24 }),
          fc.array(group, { minLength: 10, maxLength: 10 }),
          // Of one condition by itself nothing can hide behind another.
          fc.array(condition, { minLength: 30, maxLength: 30 }),
          async (drawn, groups, conditions) => {
            const rules = [...groups, ...conditions.map(alone)];
            const fleet = await fleets.storeFleet(database, drawn);
            const judged = await judge(rules, fleet);
            matched += judged.flat().length;
            asked += fleet.length * rules.length;
          },
        ),
        { numRuns: Number(process.env['CONDITION_RUNS'] ?? 9) },
      );
      // Rules that nothing or everything matches would show little.
      expect(matched / asked).to.be.within(0.2, 0.8);
    }).timeout(120_000);
  }

  /** Compares what each of the rules finds in the database and in memory with the referee's judgement, and returns that. */
  async function judge(rules: (PlainGroup | PlainCondition)[], fleet: readonly MatchableDevice[]) {
    const found = await inDatabase(rules);
    return rules.map((rule, index) => {
      const compiled = parsed(rule);
      const judged = idsOf(fleet, (device) => evaluate(rule, device, NOW));
      expect(found[index], `the database: ${JSON.stringify(rule)}`).to.deep.equal(judged);
      expect(
        idsOf(fleet, (device) => compiled.matches(device, NOW)),
        `memory: ${JSON.stringify(rule)}`,
      ).to.deep.equal(judged);
      return judged;
    });
  }

  describe('mean the same', () => {
    const numbers = [
      'equals',
      'notEquals',
      'greaterThan',
      'greaterThanOrEquals',
      'lessThan',
      'lessThanOrEquals',
    ];
    const times = [...numbers, 'before', 'after'];
    const texts = ['equals', 'notEquals', 'contains', 'notContains', 'startsWith', 'endsWith'];
    const days = [...new Set(TIMES.map((ms) => new Date(ms).toISOString().slice(0, 10)))];
    const instants = [...days, ...TIMES.map((ms) => new Date(ms).toISOString())];
    // With every value of every pool in it.
    const drawn = fc.sample(fleets.device, { numRuns: 45, seed: 9 }).map((one, index) => ({
      ...one,
      displayName: fleets.WORDS[index % fleets.WORDS.length] ?? null,
      lastSeenAt: index === 44 ? null : (TIMES[index % TIMES.length] ?? null),
      enrolledAt: TIMES[index % TIMES.length] ?? NOW,
      hardware: { ...one.hardware, cpuCores: [1, 2, 4, 16][index % 4] ?? 1 },
      metrics: { cpuPercent: [0, 12.3, 50, 100][index % 4] ?? 0, ramPercent: 1, diskPercent: 1 },
      customFields: {
        ...one.customFields,
        count: NUMBERS[index % NUMBERS.length],
        day: index % 2 === 0 ? days[index % days.length] : instants[index % instants.length],
      },
    }));
    const TABLE: [title: string, fields: string[], operators: string[], values: readonly unknown[]][] = [
      [
        'numbers',
        ['hardware.cpuCores', 'metrics.cpuPercent', 'metrics.avg.cpuPercent.1h', 'custom.count'],
        numbers,
        NUMBERS,
      ],
      [
        'days since a time',
        ['daysSinceLastSeen', 'daysSinceEnrolled'],
        numbers,
        [0, 1, 1.5, 7, -1, 0.1 + 0.2, 1 / 24, 1e300, -1e300],
      ],
      ['times', ['lastSeenAt', 'custom.day'], times, instants],
      ['texts', ['displayName'], texts, fleets.WORDS],
    ];
    for (const [title, fields, operators, values] of TABLE) {
      it(`at every end of a range and for every text beside every other: ${title}`, async () => {
        const fleet = await fleets.storeFleet(database, drawn);
        const rules = fields.flatMap((field) =>
          operators.flatMap((operator) => values.map((value) => alone({ field, operator, value }))),
        );
        expect(rules.length).to.be.greaterThan(50);
        await judge(rules, fleet);
      });
    }
  });

  it('may be 20,000 levels deep, and half of them may have something to decide', async function () {
    const drawn = fc.sample(fleets.device, { numRuns: 40, seed: 7 });
    const fleet = await fleets.storeFleet(database, drawn);
    let rule: PlainCondition | PlainGroup = { field: 'osType', operator: 'equals', value: 'linux' };
    for (let level = 0; level < 19_998; level++) {
      if (level % 2 === 1) {
        rule = { operator: 'AND', conditions: [rule] };
        continue;
      }
      const even = level % 4 === 0;
      const beside: PlainCondition = even
        ? { field: 'lastSeenAt', operator: 'isNotNull' }
        : { field: 'hardware.cpuCores', operator: 'greaterThan', value: 1000 };
      rule = { operator: even ? 'AND' : 'OR', conditions: level % 3 === 0 ? [rule, beside] : [beside, rule] };
    }
    const expected = idsOf(fleet, (one) => one.osType === 'linux' && one.lastSeenAt !== null);
    expect(expected.length).to.be.within(1, 39);
    const conditions = parsed(rule);
    expect(idsOf(fleet, (one) => conditions.matches(one, NOW))).to.deep.equal(expected);
    expect(await inDatabase([rule])).to.deep.equal([expected]);
    const text = conditionsText(rule);
    expect(text).to.have.length.greaterThan(1_000_000);
    expect(await inDatabase([JSON.parse(text) as PlainGroup])).to.deep.equal([expected]);
  });

  describe('as many as may be', () => {
    const HOSTS = Array.from({ length: 65_536 }, (_, n) => `host-${n}`);
    const DAYS = Array.from({ length: 10_000 }, (_, n) => ({
      field: 'custom.day',
      operator: 'equals',
      value: n === 9 ? '2026-03-31' : '1970-01-01',
    }));
    const named = (operator: 'in' | 'notIn') => (fleet: readonly Pick<MatchableDevice, 'hostname'>[]) => [
      { field: 'hostname', operator, value: [...HOSTS, fleet[3]?.hostname ?? ''] },
    ];
    for (const [what, conditionsFor, operator] of [
      ['65,536 values that are wanted', named('in'), 'AND'],
      ['65,536 values that are not wanted', named('notIn'), 'AND'],
      ['10,000 conditions', () => DAYS, 'OR'],
    ] as const) {
      it(`name ${what}`, async () => {
        const fleet = await fleets.storeFleet(database, fc.sample(fleets.device, { numRuns: 20, seed: 8 }));
        const rule: PlainGroup = { operator, conditions: conditionsFor(fleet) };
        const expected = idsOf(fleet, (device) => evaluate(rule, device, NOW));
        const compiled = parsed(rule);
        expect(idsOf(fleet, (device) => compiled.matches(device, NOW))).to.deep.equal(expected);
        expect(await inDatabase([rule])).to.deep.equal([expected]);
      });
    }
  });
});
