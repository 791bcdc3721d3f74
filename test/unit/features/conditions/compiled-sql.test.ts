import { expect } from 'chai';
import fc from 'fast-check';
import { parseConditions } from '../../../../src/features/conditions/index.ts';
import { INSTANT_PATTERN } from '../../../../src/features/conditions/instants.ts';
import { alone, condition, group } from '../../../support/conditions/any-rule.ts';
import type { PlainCondition, PlainGroup } from '../../../support/conditions/referee.ts';
import { CUSTOM_KINDS, NOW } from '../../../support/conditions/rule-fleet.ts';

/** The SQL of conditions as it stands. What it means to Postgres is compared with a referee in both-backends.test.ts. */

const ID = '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f93';
const OTHER_ID = '01831f2e-0c2d-7a4e-9b1f-5d3c2b1a0f93';
const STATUS = `case when d.condition <> 'normal' then d.condition when p.state = 'connected' or p.reports_until > now() then 'online' else 'offline' end`;
const ofType = (types: string, value: string) =>
  `(case when jsonb_typeof(d.custom_fields -> ?) ${types} then ${value} end)`;
const TEXT = ofType(`in ('string', 'number', 'boolean')`, 'd.custom_fields ->> ?');
const COUNT = ofType(`= 'number'`, '(d.custom_fields ->> ?)::float8');
const FLAG = ofType(`= 'boolean'`, 'd.custom_fields ->> ?');
const DAY = `(case when d.custom_fields ->> ? ~ '${INSTANT_PATTERN.replaceAll('?', String.raw`\?`)}' then date_trunc('milliseconds', regexp_replace(d.custom_fields ->> ?, '^(.{10})$', '\\1T00:00Z')::timestamptz) end)`;
const IS_LIST = `jsonb_typeof(d.custom_fields -> ?) = 'array'`;
const inList = (test: string) =>
  `case when ${IS_LIST} then exists (select from jsonb_array_elements(d.custom_fields -> ?) as one (value) where jsonb_typeof(one.value) = 'string' and ${test}) end`;
const TAGS = 'exists (select from unnest(d.tags) as tag (name) where';
const MEMBER = 'select from device_group_members m where m.org_id = d.org_id and m.device_id = d.id';
const SOFTWARE = `d.id in (select s.device_id from device_software s join software_titles t on t.org_id = s.org_id and t.id = s.title_id where (t.name) ilike ?)`;
const CPU = '(floor(p.cpu_percent::float8 * 100 + 0.5) / 100)';
const BETWEEN_DAYS = 'between ?::timestamptz and ?::timestamptz';

type Row = [field: string, operator: string, value: unknown, text: string, values: readonly unknown[]];
const NONE = undefined;

const TABLE: readonly Row[] = [
  ['hostname', 'equals', 'a', '(d.hostname) = ?::text', ['a']],
  ['hostname', 'in', ['a', 'b'], '(d.hostname) = any(?::text[])', [['a', 'b']]],
  ['hostname', 'notIn', ['a'], '((d.hostname) = ?::text) is not true', ['a']],
  ['hostname', 'startsWith', 'a', '(d.hostname) ilike ?', ['a%']],
  ['hostname', 'endsWith', 'a', '(d.hostname) ilike ?', ['%a']],
  ['hostname', 'contains', 'a_', '(d.hostname) ilike ?', [String.raw`%a\_%`]],
  ['hostname', 'notContains', 'a', '((d.hostname) ilike ?) is not true', ['%a%']],
  ['hostname', 'matches', 'a+', '(d.hostname) ~ ?', ['a+']],
  ['displayName', 'isNull', NONE, '(d.display_name) is null', []],
  ['displayName', 'isNotNull', NONE, '(d.display_name) is not null', []],
  ['status', 'in', ['online', 'offline'], `((${STATUS})) = any(?::text[])`, [['online', 'offline']]],
  ['siteId', 'equals', ID, '(d.site_id) = ?::uuid', [ID]],
  ['siteId', 'in', [ID, OTHER_ID], '(d.site_id) = any(?::uuid[])', [[ID, OTHER_ID]]],

  ['metrics.cpuPercent', 'equals', 5, `(${CPU}) between ?::float8 and ?::float8`, [5, 5]],
  ['metrics.cpuPercent', 'notEquals', 5, `((${CPU}) between ?::float8 and ?::float8) is not true`, [5, 5]],
  ['metrics.cpuPercent', 'greaterThan', 5, `(${CPU}) > ?::float8`, [5]],
  ['metrics.cpuPercent', 'greaterThanOrEquals', 5, `(${CPU}) >= ?::float8`, [5]],
  ['metrics.cpuPercent', 'lessThan', 5, `(${CPU}) < ?::float8`, [5]],
  ['metrics.cpuPercent', 'lessThanOrEquals', 5, `(${CPU}) <= ?::float8`, [5]],

  [
    'lastSeenAt',
    'equals',
    '2026-01-31',
    `(p.last_seen_at) ${BETWEEN_DAYS}`,
    ['2026-01-31T00:00:00.000Z', '2026-01-31T23:59:59.999Z'],
  ],
  ['lastSeenAt', 'before', '2026-01-31', '(p.last_seen_at) <= ?::timestamptz', ['2026-01-30T23:59:59.999Z']],
  ['lastSeenAt', 'after', '2026-01-31', '(p.last_seen_at) >= ?::timestamptz', ['2026-02-01T00:00:00.000Z']],
  [
    'lastSeenAt',
    'withinLast',
    { amount: 1, unit: 'months' },
    '(p.last_seen_at) >= ?::timestamptz',
    ['2026-02-28T12:00:00.000Z'],
  ],
  [
    'lastSeenAt',
    'notWithinLast',
    { amount: 1_000_000, unit: 'months' },
    '((p.last_seen_at) >= ?::timestamptz) is not true',
    ['-infinity'],
  ],
  [
    'daysSinceLastSeen',
    'between',
    { from: 1, to: 2 },
    `(p.last_seen_at) ${BETWEEN_DAYS}`,
    ['2026-03-29T12:00:00.000Z', '2026-03-30T12:00:00.000Z'],
  ],
  ['daysSinceEnrolled', 'greaterThan', 1, '(d.enrolled_at) <= ?::timestamptz', ['2026-03-30T11:59:59.999Z']],
  ['daysSinceEnrolled', 'lessThan', -1e9, '(d.enrolled_at) >= ?::timestamptz', ['infinity']],

  ['tags', 'hasAny', ['a', 'b'], 'd.tags && ?::text[]', [['a', 'b']]],
  ['tags', 'hasAll', ['a', 'b'], 'd.tags @> ?::text[]', [['a', 'b']]],
  ['tags', 'contains', 'a', `${TAGS} (tag.name) ilike ?)`, ['%a%']],
  ['tags', 'isEmpty', NONE, `(${TAGS} true)) is not true`, []],
  ['tags', 'isNotEmpty', NONE, `${TAGS} true)`, []],
  ['tags', 'isNull', NONE, 'false', []],
  ['tags', 'isNotNull', NONE, '(false) is not true', []],
  ['groupId', 'equals', ID, `exists (${MEMBER} and m.group_id = any(?::uuid[]))`, [[ID]]],
  ['groupId', 'in', [ID, OTHER_ID], `exists (${MEMBER} and m.group_id = any(?::uuid[]))`, [[ID, OTHER_ID]]],
  ['groupId', 'isNull', NONE, `not exists (${MEMBER})`, []],
  ['groupId', 'isNotNull', NONE, `(not exists (${MEMBER})) is not true`, []],
  ['software.installed', 'contains', 'a', SOFTWARE, ['%a%']],
  ['software.installed', 'notContains', 'a', `(${SOFTWARE}) is not true`, ['%a%']],
  ['software.notInstalled', 'contains', 'a', `(${SOFTWARE}) is not true`, ['%a%']],

  ['custom.text', 'equals', 'a', `${TEXT} = ?::text`, ['text', 'text', 'a']],
  ['custom.text', 'notContains', 'a', `(${TEXT} ilike ?) is not true`, ['text', 'text', '%a%']],
  ['custom.text', 'matches', 'a', `${TEXT} ~ ?`, ['text', 'text', 'a']],
  ['custom.other', 'isNull', NONE, `${TEXT} is null`, ['other', 'other']],
  ['custom.count', 'greaterThan', 1, `${COUNT} > ?::float8`, ['count', 'count', 1]],
  ['custom.count', 'isNotNull', NONE, `${COUNT} is not null`, ['count', 'count']],
  ['custom.flag', 'equals', true, `${FLAG} = ?::text`, ['flag', 'flag', 'true']],
  ['custom.flag', 'notEquals', false, `(${FLAG} = ?::text) is not true`, ['flag', 'flag', 'false']],
  [
    'custom.day',
    'after',
    '2026-01-31T08:00:00Z',
    `${DAY} >= ?::timestamptz`,
    ['day', 'day', '2026-01-31T08:00:00.001Z'],
  ],
  [
    'custom.words',
    'hasAny',
    ['a', 'b'],
    `case when ${IS_LIST} then jsonb_exists_any(d.custom_fields -> ?, ?::text[]) end`,
    ['words', 'words', ['a', 'b']],
  ],
  [
    'custom.words',
    'hasAll',
    ['a', 'b'],
    `case when ${IS_LIST} then jsonb_exists_all(d.custom_fields -> ?, ?::text[]) end`,
    ['words', 'words', ['a', 'b']],
  ],
  ['custom.words', 'contains', 'a', inList(`((one.value #>> '{}')) ilike ?`), ['words', 'words', '%a%']],
  ['custom.words', 'isEmpty', NONE, `(${inList('true')}) is not true`, ['words', 'words']],
  ['custom.words', 'isNotEmpty', NONE, inList('true'), ['words', 'words']],
  ['custom.words', 'isNull', NONE, `(${IS_LIST}) is not true`, ['words']],
  ['custom.words', 'isNotNull', NONE, `((${IS_LIST}) is not true) is not true`, ['words']],
];

const READS_PRESENCE = /\bp\./;
const JOINS_PRESENCE =
  / left join device_presence p on p\.device_id = d\.id and p\.org_id = d\.org_id where /;

describe('the SQL of a condition', () => {
  const sqlOf = (rule: PlainGroup | PlainCondition) => {
    const answer = parseConditions(rule, { customKinds: CUSTOM_KINDS });
    if (!answer.ok) throw new Error(JSON.stringify([answer.faults, rule]));
    const sql = answer.conditions.toSql({ now: NOW, tenant: 'd.org_id = mine', prefix: 'part' });
    return { ...sql, text: sql.text.replaceAll(/\s+/g, ' ') };
  };
  /** The condition below so many groups, of which each has another operator than the one around it. */
  const deep = (levels: number, innermost: PlainCondition | PlainGroup) => {
    let rule = innermost;
    for (let level = 0; level < levels; level += 1) {
      const beside = { field: 'osVersion', operator: 'equals', value: `${level}` };
      rule = { operator: level % 2 === 0 ? 'OR' : 'AND', conditions: [rule, beside] };
    }
    return rule;
  };

  for (const [field, operator, value, text, values] of TABLE) {
    it(`asks whether ${field} ${operator} ${JSON.stringify(value) ?? ''}`.trimEnd(), () => {
      const rule = { field, operator, ...(value === undefined ? {} : { value }) };
      // Beside another condition, so that no parentheses are left out.
      const sql = sqlOf({
        operator: 'AND',
        conditions: [rule, { field: 'osVersion', operator: 'equals', value: 'x' }],
      });
      expect(sql.text).to.equal(`(${text} and (d.os_version) = ?::text)`);
      expect(sql.values).to.deep.equal([...values, 'x']);
    });
  }

  it('has presence joined wherever it reads it and nowhere else, whatever the rule and its depth', () => {
    fc.assert(
      fc.property(fc.oneof(condition.map(alone), group), fc.integer({ min: 0, max: 85 }), (rule, levels) => {
        const { named, text, readsPresence } = sqlOf(deep(levels, rule));
        expect(readsPresence, text).to.equal(READS_PRESENCE.test(text));
        for (const query of named) {
          const [head = '', ...tail] = query.text.split(' where ');
          const isRead = READS_PRESENCE.test(tail.join(' where '));
          expect(JOINS_PRESENCE.test(`${head.replaceAll(/\s+/g, ' ')} where `), query.text).to.equal(isRead);
        }
      }),
      { numRuns: 150 },
    );
  });

  for (const field of ['status', 'lastSeenAt', 'daysSinceLastSeen', 'metrics.diskPercent']) {
    it(`has presence in the named query of a deep rule about ${field}`, () => {
      const { named, readsPresence } = sqlOf(deep(45, { field, operator: 'isNotNull' }));
      expect(named).to.have.length(1);
      expect(named[0]?.text).to.match(JOINS_PRESENCE);
      expect(readsPresence).to.equal(false);
      expect(sqlOf(alone({ field, operator: 'isNotNull' })).readsPresence).to.equal(true);
    });
  }

  it('binds a value for each place, in each of its queries', () => {
    fc.assert(
      fc.property(fc.oneof(condition.map(alone), group), fc.integer({ min: 0, max: 85 }), (rule, levels) => {
        const { named, text, values } = sqlOf(deep(levels, rule));
        for (const query of [...named, { text, values }]) {
          // `\?` is a question mark, as it is in the pattern of an instant.
          expect(query.text.replaceAll(String.raw`\?`, '').split('?')).to.have.length(
            query.values.length + 1,
          );
        }
        expect(new Set(named.map(({ name }) => name)).size).to.equal(named.length);
      }),
      { numRuns: 100 },
    );
  });
});
