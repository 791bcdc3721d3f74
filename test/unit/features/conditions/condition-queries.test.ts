import { expect } from 'chai';
import knex from 'knex';
import {
  assertPatternsCompile,
  selectMatchable,
  toMatchable,
  whereMatching,
  withPatternTimeout,
} from '../../../../src/features/conditions/condition.queries.ts';
import type { Dependency } from '../../../../src/features/conditions/field.ts';
import { parseConditions } from '../../../../src/features/conditions/index.ts';
import type { Query } from '../../../../src/platform/db/pool.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import type { Tx } from '../../../../src/platform/db/transaction.ts';
import { CUSTOM_KINDS, NOW } from '../../../support/conditions/rule-fleet.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

/** Statements with conditions, as they are written. No database is asked. */

const MINE: TenantScope = {
  scope: 'organization',
  userId: null,
  partnerId: null,
  orgAccess: 'listed',
  orgIds: [],
};
const OF_TENANT = 'd.org_id = any((select app_org_ids())::uuid[])';

describe('a query with conditions', () => {
  const testClock = useTestClock({ isRunning: false });
  const builder = knex({ client: 'pg' });
  const devices = () => builder('devices as d').select('d.id') as Query;
  const parsed = (rule: object) => {
    const answer = parseConditions(rule, { customKinds: CUSTOM_KINDS });
    if (!answer.ok) throw new Error(JSON.stringify(answer.faults));
    return answer.conditions;
  };
  const alone = (field: string, operator: string, value: unknown) =>
    parsed({ operator: 'AND', conditions: [{ field, operator, value }] });
  const written = (query: Query) => {
    const { sql, bindings } = query.toSQL().toNative();
    return { sql: sql.replaceAll(/\s+/g, ' '), bindings };
  };

  describe('that restricts devices', () => {
    it('has the conditions as its own, with their values', () => {
      const query = whereMatching(devices(), alone('tags', 'hasAny', ['a', 'b']), {
        caller: MINE,
        now: NOW,
      });
      expect(written(query)).to.deep.equal({
        sql: 'select "d"."id" from "devices" as "d" where d.tags && $1::text[]',
        bindings: [['a', 'b']],
      });
    });

    it('has the named parts of deep conditions before it, once evaluated and within the tenant', () => {
      let rule: object = { field: 'status', operator: 'equals', value: 'online' };
      for (let level = 0; level < 45; level += 1) {
        const beside = { field: 'tags', operator: 'hasAny', value: [`${level}`] };
        rule = { operator: level % 2 === 0 ? 'OR' : 'AND', conditions: [rule, beside] };
      }
      const sqlOf = (given: object) =>
        written(whereMatching(devices(), parsed(rule), { caller: MINE, now: NOW, ...given }));
      const { sql, bindings } = sqlOf({});
      expect(sql).to.match(/^with "matching0" as materialized \(select d\.id from devices d left join /);
      expect(sql).to.contain(` where ${OF_TENANT} and (`);
      expect(sql).to.contain('(d.id in (select id from matching0)) is true');
      expect(bindings).to.deep.equal(['online', ...Array.from({ length: 45 }, (_, level) => [`${level}`])]);
      expect(sqlOf({ prefix: 'other' }).sql).to.match(/^with "other0" as materialized /);
      expect(sqlOf({ caller: { ...MINE, scope: 'system' } }).sql).to.contain(' where true and (');
    });

    it('goes by the clock if it is not given a time', () => {
      const recent = alone('lastSeenAt', 'withinLast', { amount: 1, unit: 'hours' });
      const { bindings } = written(whereMatching(devices(), recent, { caller: MINE }));
      expect(bindings).to.deep.equal([new Date(testClock.now() - 3_600_000).toISOString()]);
    });
  });

  describe('that may take long', () => {
    let sent: [sql: string, bindings: unknown][];
    let answer: unknown;
    const tx = {
      async raw(sql: string, bindings?: unknown) {
        sent.push([sql, bindings]);
        if (sql.startsWith('select') && answer instanceof Error) throw answer;
        return answer;
      },
    } as unknown as Tx;
    const LIMIT = `set local statement_timeout = '5000ms'`;
    const NO_LIMIT = 'set local statement_timeout to default';
    const texts = () => sent.map(([sql]) => sql);
    const failure = (code: string) => Object.assign(new Error('of Postgres'), { code });
    const thrownBy = async (cost: { patterns: string[]; count: number }, error: Error) => {
      const thrown: unknown = await withPatternTimeout(tx, cost, () => Promise.reject(error)).catch(
        (caught: unknown) => caught,
      );
      return thrown as { code: string; message: string; cause: unknown; details?: unknown };
    };

    beforeEach(() => {
      sent = [];
      answer = 'answer';
    });

    it('has a limit of time if it has patterns or many conditions, and none afterwards', async () => {
      const run = (cost: { patterns: string[]; count: number }) =>
        withPatternTimeout(tx, cost, async () => {
          sent.push(['the query', undefined]);
          return 7;
        });
      expect(await run({ patterns: [], count: 100 })).to.equal(7);
      expect(texts()).to.deep.equal(['the query']);
      for (const cost of [
        { patterns: [], count: 101 },
        { patterns: ['a'], count: 1 },
      ]) {
        sent = [];
        expect(await run(cost)).to.equal(7);
        expect(texts()).to.deep.equal([LIMIT, 'the query', NO_LIMIT]);
      }
    });

    it('says what to do if its time is over or a pattern is too large', async () => {
      const COST = { patterns: ['a'], count: 1 };
      const late = failure('57014');
      const timedOut = await thrownBy(COST, late);
      expect(timedOut).to.include({ code: 'unavailable', cause: late });
      expect(timedOut.message).to.match(/takes too long.*fewer or simpler conditions/);
      const large = failure('2201B');
      const tooLarge = await thrownBy(COST, large);
      expect(tooLarge).to.include({ code: 'validation_failed', cause: large });
      expect(tooLarge.message).to.match(/too large/);
      expect(tooLarge.details).to.deep.equal([
        { path: 'conditions', message: 'contains a regular expression that is too large' },
      ]);
      const other = failure('40001');
      expect(await thrownBy(COST, other)).to.equal(other);
      const cheap = failure('57014');
      expect(await thrownBy({ patterns: [], count: 1 }, cheap), 'without a limit of ours').to.equal(cheap);
    });

    it('tries each pattern once, and none if there is none', async () => {
      await assertPatternsCompile(tx, { patterns: [], count: 1000 });
      expect(sent).to.deep.equal([]);
      await assertPatternsCompile(tx, { patterns: ['a', 'b', 'a'], count: 3 });
      expect(texts()).to.deep.equal([
        LIMIT,
        `select count(*) from unnest(?::text[]) as given (pattern) where '' ~ given.pattern`,
        NO_LIMIT,
      ]);
      expect(sent[1]?.[1]).to.deep.equal([['a', 'b']]);
      answer = failure('2201B');
      const refused: unknown = await assertPatternsCompile(tx, { patterns: ['a'], count: 1 }).catch(
        (caught: unknown) => caught,
      );
      expect(refused).to.include({ code: 'validation_failed' });
    });
  });

  describe('that reads devices for conditions in memory', () => {
    it('reads groups and software only if they are asked for', () => {
      const sqlOf = (...reads: Dependency[]) =>
        written(selectMatchable(builder('devices as d'), new Set(reads))).sql;
      const groups = `array(select m.group_id from device_group_members m where m.org_id = d.org_id and m.device_id = d.id order by m.group_id) as "groupIds"`;
      const software = `array(select distinct t.name from device_software s join software_titles t on t.org_id = s.org_id and t.id = s.title_id where s.org_id = d.org_id and s.device_id = d.id order by t.name) as "software"`;
      const [noGroups, noSoftware] = [`'{}'::uuid[] as "groupIds"`, `'{}'::text[] as "software"`];
      expect(sqlOf('tags')).to.contain(noGroups).and.contain(noSoftware);
      expect(sqlOf('groupIds')).to.contain(groups).and.contain(noSoftware);
      expect(sqlOf('software')).to.contain(noGroups).and.contain(software);
      expect(sqlOf()).to.match(
        /^select "d"\."id" as "id", "d"\."org_id" as "orgId", "d"\."site_id" as "siteId", "d"\."hostname" as "hostname", "d"\."display_name" as "displayName", "d"\."agent_version" as "agentVersion", case when /,
      );
      for (const part of [
        `then 'online' else 'offline' end as "status"`,
        '"d"."enrolled_at" as "enrolledAt"',
        '"p"."last_seen_at" as "lastSeenAt"',
        '"d"."tags" as "tags"',
        '"d"."os_type" as "osType"',
        '"d"."os_version" as "osVersion"',
        '"d"."os_build" as "osBuild"',
        '"d"."architecture" as "architecture"',
        '"d"."hardware" as "hardware"',
        '"d"."network" as "network"',
        '"p"."cpu_percent" as "cpuPercent"',
        '"p"."ram_percent" as "ramPercent"',
        '"p"."disk_percent" as "diskPercent"',
        '"d"."custom_fields" as "customFields"',
      ]) {
        expect(sqlOf()).to.contain(part);
      }
    });

    it('takes times as milliseconds, and metrics as hundredths if all of them are known', () => {
      const row = {
        enrolledAt: new Date(NOW - 1),
        lastSeenAt: new Date(NOW),
        hostname: 'anvil',
        cpuPercent: 12.300000190734863,
        ramPercent: 50,
        diskPercent: 99.98999786376953,
      } as Parameters<typeof toMatchable>[0];
      expect(toMatchable(row)).to.deep.equal({
        enrolledAt: NOW - 1,
        lastSeenAt: NOW,
        hostname: 'anvil',
        metrics: { cpuPercent: 12.3, ramPercent: 50, diskPercent: 99.99 },
      });
      expect(toMatchable({ ...row, lastSeenAt: null }).lastSeenAt).to.equal(null);
      for (const lacking of ['cpuPercent', 'ramPercent', 'diskPercent']) {
        expect(toMatchable({ ...row, [lacking]: null }).metrics, lacking).to.equal(null);
      }
      expect(toMatchable({ ...row, cpuPercent: 0 }).metrics?.cpuPercent).to.equal(0);
    });
  });
});
