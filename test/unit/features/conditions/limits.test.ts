import { expect } from 'chai';
import {
  CONDITIONS_MAX,
  LIST_CONDITIONS_MAX,
  PATTERN_TEXT_MAX,
  PATTERNS_MAX,
  parseRule,
} from '../../../../src/features/conditions/parse.ts';

const HOST = { field: 'hostname', operator: 'equals', value: 'x' };
const OS = { field: 'osType', operator: 'in', value: ['linux'] };
const TAG = { field: 'tags', operator: 'isEmpty' };
const matches = (value: unknown) => ({ field: 'hostname', operator: 'matches', value });
const all = (...conditions: unknown[]) => ({ operator: 'AND', conditions });
const any = (...conditions: unknown[]) => ({ operator: 'OR', conditions });
const times = <T>(count: number, one: T) => Array.from({ length: count }, () => one);

const faultsOf = (value: unknown, customKinds: Map<string, 'number'> | undefined = new Map()) => {
  const parsed = parseRule(value, { customKinds });
  return parsed.ok ? [] : parsed.faults.map(({ path, message }) => `${path}: ${message}`);
};

describe('the limits of a filter', () => {
  it('are ten thousand conditions, groups not counted', () => {
    expect(faultsOf(all(all(all(HOST)), ...times(CONDITIONS_MAX - 1, HOST)))).to.deep.equal([]);
    expect(faultsOf(all(...times(CONDITIONS_MAX + 1, HOST)))).to.deep.equal([
      `conditions: must have at most ${CONDITIONS_MAX} conditions, groups not counted`,
    ]);
  });

  it('are a hundred conditions on fields with many values', () => {
    expect(faultsOf(all(...times(LIST_CONDITIONS_MAX, TAG), ...times(50, HOST)))).to.deep.equal([]);
    expect(faultsOf(all(...times(LIST_CONDITIONS_MAX + 1, TAG)))).to.deep.equal([
      `conditions.conditions.${LIST_CONDITIONS_MAX}.value: A filter can have at most ${LIST_CONDITIONS_MAX} conditions on tags, groups, software, custom lists and averages.`,
    ]);
  });

  it('count conditions on averages among them', () => {
    const average = { field: 'metrics.avg.load.1d', operator: 'greaterThan', value: 1 };
    expect(faultsOf(all(...times(LIST_CONDITIONS_MAX - 1, TAG), average))).to.deep.equal([]);
    expect(faultsOf(all(...times(LIST_CONDITIONS_MAX, TAG), average))).to.have.length(1);
  });

  it('are a number of regular expressions, and of their characters', () => {
    expect(faultsOf(all(...times(PATTERNS_MAX, matches('a'))))).to.deep.equal([]);
    expect(faultsOf(all(...times(PATTERNS_MAX + 1, matches('a'))))).to.deep.equal([
      `conditions.conditions.${PATTERNS_MAX}.value: A filter can have at most ${PATTERNS_MAX} regular expressions.`,
    ]);
    // An expression that is refused by itself counts as well.
    const mixed = faultsOf(all(...times(PATTERNS_MAX, matches(5)), matches('a')));
    expect(mixed.at(-1)).to.match(/at most 20 regular expressions/);
    const long = matches('a'.repeat(PATTERN_TEXT_MAX / 10));
    const least = faultsOf(all(...times(10, long))).filter((text) => text.endsWith('characters in total.'));
    expect(least).to.deep.equal([]);
    expect(faultsOf(all(...times(10, long), matches('a'))).at(-1)).to.match(
      /at most 2000 characters in total\.$/,
    );
  });

  it('are a size and a complexity of all regular expressions together', () => {
    // 250 characters, and 2,344 transitions, each.
    expect(faultsOf(all(...times(8, matches('a{250}'))))).to.deep.equal([]);
    expect(faultsOf(all(...times(9, matches('a{250}'))))).to.have.length(1);
    expect(faultsOf(all(...times(9, matches('a{250}'))))[0]).to.match(
      /^conditions\.conditions\.8\.value: .*too large/,
    );
    const complex = matches('(\\b.*){3}');
    expect(faultsOf(all(...times(6, complex)))).to.deep.equal([]);
    expect(faultsOf(all(...times(7, complex)))[0]).to.match(
      /^conditions\.conditions\.6\.value: .*too complex/,
    );
  });
});

describe('the rule of a filter', () => {
  const shape = (value: unknown): unknown => {
    const parsed = parseRule(value, { customKinds: new Map() });
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.faults));
    const of = (rule: typeof parsed.rule): unknown =>
      'children' in rule ? [rule.operator, ...rule.children.map(of)] : rule.field.key;
    return of(parsed.rule);
  };

  it('is a single condition if a group has no other', () => {
    expect(shape(all(HOST))).to.equal('hostname');
    expect(shape(any(all(any(HOST))))).to.equal('hostname');
  });

  it('has no group within one of the same operator', () => {
    expect(shape(all(HOST, all(OS, any(HOST))))).to.deep.equal(['and', 'hostname', 'osType', 'hostname']);
    expect(shape(any(HOST, OS))).to.deep.equal(['or', 'hostname', 'osType']);
    expect(shape(all(HOST, any(OS, HOST)))).to.deep.equal(['and', 'hostname', ['or', 'osType', 'hostname']]);
    // A group is compared with the one around it, and not with that of the whole filter.
    expect(shape(all(HOST, any(OS, all(HOST, OS))))).to.deep.equal([
      'and',
      'hostname',
      ['or', 'osType', ['and', 'hostname', 'osType']],
    ]);
    expect(shape(all(HOST, any(OS, any(HOST, OS))))).to.deep.equal([
      'and',
      'hostname',
      ['or', 'osType', 'hostname', 'osType'],
    ]);
  });
});

describe('the faults of a filter', () => {
  it('say what is expected', () => {
    expect(faultsOf(HOST)).to.deep.equal(['conditions: must be a group { operator, conditions }']);
    expect(faultsOf(all({ field: 5, operator: 6 }))).to.deep.equal([
      'conditions.conditions.0.operator: must be a string',
      'conditions.conditions.0.field: must be a string',
    ]);
    expect(faultsOf(all({ field: 'hostname', operator: 6 }))).to.have.length(1);
    expect(faultsOf(all({ field: 'a\0b', operator: 'equals', value: 'x' }))).to.deep.equal([
      'conditions.conditions.0.field: Unknown field "ab"',
    ]);
    expect(faultsOf(all({ field: 'hostname', operator: 'equals' }))).to.deep.equal([
      'conditions.conditions.0.value: is required with equals',
    ]);
    expect(faultsOf(all({ ...TAG, value: 1 }))).to.deep.equal([
      'conditions.conditions.0.value: must be left out with isEmpty',
    ]);
    expect(faultsOf(all({ ...HOST, operator: 'withinLast' }))[0]).to.match(
      /^conditions\.conditions\.0\.operator: "withinLast" is not an operator of hostname; use one of equals, /,
    );
    const name = 'x'.repeat(100);
    expect(faultsOf(all({ ...HOST, field: name }))[0]).to.match(/Unknown field "x{100}"$/);
    expect(faultsOf(all({ ...HOST, field: `${name}y` }))[0]).to.match(/Unknown field "x{99}…"$/);
  });

  it('are not looked for in conditions on custom fields while their definitions are unknown', () => {
    const custom = { field: 'custom.count', operator: 'nonsense', value: 1 };
    const { ok } = parseRule(all(custom, HOST), { customKinds: undefined });
    expect(ok).to.equal(true);
    expect(faultsOf(all({ ...custom, field: 'hostname' }), undefined)).to.have.length(1);
  });
});
