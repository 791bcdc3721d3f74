import { expect } from 'chai';
import fc from 'fast-check';
import {
  conditionsText,
  type CustomKinds,
  invalidConditions,
  parseConditions,
} from '../../../../src/features/conditions/index.ts';

const KINDS: CustomKinds = new Map([
  ['count', 'number'],
  ['flag', 'boolean'],
  ['day', 'date'],
  ['words', 'list'],
]);

describe('invalid conditions', () => {
  const faultsOf = (value: unknown, root?: string) => {
    const parsed = parseConditions(value, { customKinds: KINDS, ...(root === undefined ? {} : { root }) });
    return parsed.ok ? [] : parsed.faults.map(({ path, message }) => [path, message]);
  };
  const all = (...conditions: unknown[]) => ({ operator: 'AND', conditions });
  const faultOf = (condition: unknown) => faultsOf(all(condition))[0];

  it('are reported with all faults and their paths', () => {
    const faults = faultsOf(
      all(
        { field: 'hostnam', operator: 'equals', value: 'x' },
        { field: 'status', operator: 'contains', value: 'on' },
        { operator: 'XOR', conditions: [{ field: 'osType', operator: 'in', value: ['linux', 'beos', 5] }] },
        { operator: 'OR', conditions: [] },
        7,
        { field: 'lastSeenAt', operator: 'withinLast', value: { amount: 0, unit: 'years', more: 1 } },
        { field: 'lastSeenAt', operator: 'withinLast', value: { amount: 0, unit: 'years' } },
        { field: 'tags', operator: 'isEmpty', value: null },
        { field: 'hostname', operator: 'equals', extra: 1 },
        { field: 5, operator: 6 },
      ),
      'body.conditions',
    );
    expect(faults.map(([path]) => path)).to.deep.equal([
      'body.conditions.conditions.0.field',
      'body.conditions.conditions.1.operator',
      'body.conditions.conditions.2.operator',
      'body.conditions.conditions.2.conditions.0.value.1',
      'body.conditions.conditions.2.conditions.0.value.2',
      'body.conditions.conditions.3.conditions',
      'body.conditions.conditions.4',
      'body.conditions.conditions.5.value.more',
      'body.conditions.conditions.6.value.amount',
      'body.conditions.conditions.6.value.unit',
      'body.conditions.conditions.7.value',
      'body.conditions.conditions.8.extra',
      'body.conditions.conditions.8.value',
      'body.conditions.conditions.9.operator',
      'body.conditions.conditions.9.field',
    ]);
    expect(faults[0]?.[1]).to.match(/^Unknown field "hostnam"/);
  });

  it('are reported with an unknown field first', () => {
    for (const field of [
      'Hostname',
      'hostname ',
      '__proto__',
      'constructor',
      'toString',
      'custom.',
      'custom',
      'hardware',
      'metrics.cpu',
      '',
      'groupIds',
      `custom.${'x'.repeat(300)}`,
      'custom.a\0b',
      'custom.\ud800',
      'x'.repeat(10_000),
    ]) {
      const [path, message] = faultOf({ field, operator: 'equals', value: 'x' }) ?? [];
      expect(path).to.equal('conditions.conditions.0.field');
      expect(message, field.slice(0, 50)).to.match(/^Unknown field/);
      expect(message?.length).to.be.lessThan(150);
      expect(invalidConditions([{ path: path ?? '', message: message ?? '' }]).message).to.match(
        /^Unknown field/,
      );
    }
  });

  const wrongValues: [string, string, unknown, string][] = [
    ['hostname', 'equals', 5, 'value'],
    ['hostname', 'equals', null, 'value'],
    ['hostname', 'contains', ['a'], 'value'],
    ['hostname', 'equals', 'a\0', 'value'],
    ['hostname', 'equals', '\udc00', 'value'],
    ['hostname', 'in', [], 'value'],
    ['hostname', 'in', 'a', 'value'],
    ['hostname', 'in', { 0: 'a' }, 'value'],
    ['hostname', 'in', ['a', null], 'value.1'],
    ['tags', 'hasAny', [['a']], 'value.0'],
    ['status', 'equals', 'Online', 'value'],
    ['status', 'notIn', ['online', 'dead'], 'value.1'],
    ['osType', 'equals', 'toString', 'value'],
    ['hardware.cpuCores', 'equals', '4', 'value'],
    ['hardware.cpuCores', 'greaterThan', Infinity, 'value'],
    ['hardware.cpuCores', 'between', { from: 5, to: 1 }, 'value.from'],
    ['hardware.cpuCores', 'between', { from: 5 }, 'value.to'],
    ['hardware.cpuCores', 'between', [1, 5], 'value'],
    ['enrolledAt', 'before', 'yesterday', 'value'],
    ['enrolledAt', 'before', '2026-02-30', 'value'],
    ['enrolledAt', 'before', '2026-01-01T00:00:00', 'value'],
    ['enrolledAt', 'before', 1_700_000_000_000, 'value'],
    ['enrolledAt', 'between', { from: '2026-01-02', to: '2026-01-01' }, 'value.from'],
    ['enrolledAt', 'between', { from: 'x', to: 'y' }, 'value.from'],
    ['enrolledAt', 'withinLast', { amount: 1.5, unit: 'days' }, 'value.amount'],
    ['enrolledAt', 'withinLast', { amount: 1, unit: 'constructor' }, 'value.unit'],
    ['orgId', 'equals', 'x', 'value'],
    ['groupId', 'in', ['x'], 'value.0'],
    ['custom.flag', 'equals', 'true', 'value'],
    ['custom.count', 'contains', 'x', 'operator'],
    ['custom.day', 'startsWith', '2026', 'operator'],
    ['custom.words', 'equals', 'x', 'operator'],
    ['custom.other', 'greaterThan', 5, 'operator'],
    ['tags', 'equals', 'x', 'operator'],
    ['orgId', 'notEquals', 'x', 'operator'],
    ['software.installed', 'isNull', undefined, 'operator'],
    ['software.notInstalled', 'notContains', 'x', 'operator'],
    ['hostname', '__proto__', 'x', 'operator'],
    ['hostname', 'constructor', 'x', 'operator'],
    ['hostname', 'Equals', 'x', 'operator'],
  ];
  for (const [field, operator, value, where] of wrongValues) {
    it(`are found: ${field} ${operator} ${JSON.stringify(value)}`, () => {
      expect(faultOf({ field, operator, ...(value === undefined ? {} : { value }) })?.[0]).to.equal(
        `conditions.conditions.0.${where}`,
      );
    });
  }

  it('are found if the whole is not a group', () => {
    for (const whole of [
      null,
      5,
      'x',
      [],
      [{ field: 'tags', operator: 'isEmpty' }],
      { field: 'tags', operator: 'isEmpty' },
      undefined,
    ]) {
      expect(faultsOf(whole)).to.have.length(1);
    }
    expect(faultsOf({})).to.deep.equal([
      ['conditions.operator', 'must be AND or OR'],
      ['conditions.conditions', 'must be a list with at least one condition'],
    ]);
    expect(
      faultsOf(
        JSON.parse('{"operator":"AND","__proto__":1,"conditions":[{"field":"tags","operator":"isEmpty"}]}'),
      ),
    ).to.deep.equal([['conditions.__proto__', 'is not known here']]);
  });

  it('are listed up to a hundred faults, with the number of the others', () => {
    const faults = faultsOf(
      all(...Array.from({ length: 5000 }, () => ({ field: 'x', operator: 'equals', value: '' }))),
    );
    expect(faults).to.have.length(101);
    expect(faults.at(-1)).to.deep.equal(['conditions', 'has 4900 more faults that are not listed']);
  });

  it('are found at any depth, with a readable path', () => {
    let value: unknown = { field: 'x', operator: 'equals', value: '' };
    for (let level = 0; level < 100_000; level++) {
      value = { operator: level % 2 === 0 ? 'AND' : 'OR', conditions: [value] };
    }
    const [path = ''] = faultsOf(value)[0] ?? [];
    expect(path).to.match(/^conditions\.….conditions\.0\.conditions\.0/);
    expect(path.length).to.be.lessThan(1000);
  });

  it('are written as JSON.stringify writes them', () => {
    const leaf = fc.record({
      field: fc.string(),
      operator: fc.string(),
      value: fc.oneof(
        fc.string(),
        fc.array(fc.string()),
        fc.record({ from: fc.double({ noNaN: true, noDefaultInfinity: true }), to: fc.string() }),
      ),
    });
    const { group } = fc.letrec<{ group: unknown }>((tie) => ({
      group: fc.record({
        operator: fc.constantFrom('AND', 'OR'),
        conditions: fc.array(fc.oneof({ maxDepth: 4 }, leaf, tie('group'))),
      }),
    }));
    fc.assert(
      fc.property(group, (value) => void expect(conditionsText(value)).to.equal(JSON.stringify(value))),
    );
  });
});
