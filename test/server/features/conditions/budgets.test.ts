import { expect } from 'chai';
import pg from 'pg';
import { RE2JS } from 're2js';
import sinon from 'sinon';
import { type Fault, parseConditions } from '../../../../src/features/conditions/index.ts';
import { PatternCache, readPattern } from '../../../../src/features/conditions/pattern.ts';
import { PATTERN_COST, PatternFault } from '../../../../src/features/conditions/pattern-cost.ts';
import { processorMs, processorMsOf } from '../../../support/processor-time.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

const letters = (count: number, from = 0x4e00) =>
  Array.from({ length: count }, (_, n) => String.fromCodePoint(from + n)).join('');

describe('what a regular expression may cost', () => {
  const tooMuch: [string, keyof typeof PATTERN_COST][] = [
    ['.{0,255}'.repeat(30), 'size'],
    ['[^a]{255}'.repeat(20), 'size'],
    ['((a{100}){100}){100}', 'size'],
    ['(((){100}){100}){100}', 'size'],
    ['((a?b?-?){50}){3}x$', 'transitions'],
    [`(.?){25}${letters(200)}`, 'transitions'],
    [`.{255}${letters(200)}`, 'transitions'],
    ['(\\A|\\z|a*){12}', 'transitions'],
    ['\\b'.repeat(16), 'transitions'],
    ['(\\b.*){6}', 'transitions'],
  ];
  for (const [source, measure] of tooMuch) {
    it(`is less than that of ${source.slice(0, 30)}`, () => {
      const limit = `at most ${PATTERN_COST[measure]} ${measure === 'size' ? 'characters' : 'transitions'}`;
      expect(() => readPattern(source)).to.throw(PatternFault, limit);
    });
  }

  for (const source of [
    '^(srv|web|db)-[a-z0-9-]{1,63}\\.example\\.(com|net|org)$',
    '(?i)^[a-z0-9-]{1,255}$',
    '^\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}$',
    '\\b(web|db)\\d*\\b.*\\bprod\\b',
    '^.{0,100}error.{0,100}$',
    `^(${Array.from({ length: 35 }, (_, n) => `web${n}`).join('|')})$`,
    '(^|,)(a|b)?(,|$)',
    letters(256),
  ]) {
    it(`is no reason to refuse ${source.slice(0, 40)}`, () => {
      expect(() => readPattern(source)).not.to.throw();
    });
  }

  describe('of the costliest that are taken', () => {
    let database: TestDatabase;
    let client: pg.Client;
    let backend: number;
    before(async () => {
      database = await createTestDatabase();
      client = new pg.Client(database.ownerUrl);
      await client.connect();
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      backend = rows[0]?.pid ?? 0;
    });
    after(async () => {
      await client.end();
      await database.drop();
    });

    const families: Record<string, (n: number) => string> = {
      'optional letters': (n) => `(a?b?-?){${n}}x$`,
      'optional dots beside many letters': (n) => `(.?){${n}}${letters(200)}`,
      'dots beside many letters': (n) => `.{${n}}${letters(200)}`,
      'repetitions of anything': (n) => `(a*b*){${n}}`,
      'nested ranges': (n) => `.{0,${n}}`.repeat(8),
      'empty alternatives': (n) => `(|||||||a){${n}}`,
      'ends of the text': (n) => `(\\A|\\z|a*){${n}}`,
      'optional ends of the text': (n) => '($)?'.repeat(n),
      'word boundaries': (n) => '\\b'.repeat(n),
      'word boundaries between optional letters': (n) => `(\\b[a${letters(10)}]?){${n}}${letters(150)}`,
      'all conditions at once': (n) => `${'(^|$|\\b|.?)'.repeat(n)}${letters(100)}`,
      'long literals': (n) => letters(n),
      'sets in any case': (n) => `(?i)${Array.from(letters(n), (letter) => `[${letter}A-\u2fff]`).join('')}`,
    };
    for (const [name, family] of Object.entries(families)) {
      it(`neither engine takes long to compile ${name}`, async () => {
        const source = largest(family);
        const spentMs = await processorMs(() => readPattern(source).test('x'));
        expect(spentMs, `RE2: ${source}`).to.be.lessThan(400);
        const pattern = readPattern(source);
        const before = processorMsOf(backend);
        await client.query('select $1 ~ $2', ['x', pattern.postgres]);
        // Milliseconds; without limits it would be many seconds.
        expect(processorMsOf(backend) - before, `Postgres: ${source}`).to.be.lessThan(600);
      });
    }

    function largest(family: (n: number) => string): string {
      let taken = 1;
      let refused = 256;
      while (refused - taken > 1) {
        const n = (taken + refused) >> 1;
        if (isTaken(family(n))) taken = n;
        else refused = n;
      }
      return family(taken);
    }

    function isTaken(source: string): boolean {
      try {
        readPattern(source);
        return true;
      } catch (error) {
        if (error instanceof PatternFault) return false;
        throw error;
      }
    }
  });
});

describe('what a filter may hold', () => {
  const rule = (conditions: unknown[]) => ({ operator: 'OR', conditions });
  const matches = (pattern: string) => ({ field: 'hostname', operator: 'matches', value: pattern });
  const parse = (conditions: unknown[]) => parseConditions(rule(conditions), { customKinds: new Map() });
  const faultsOf = (conditions: unknown[]): Fault[] => {
    const answer = parse(conditions);
    return answer.ok ? [] : answer.faults;
  };
  const many = <T>(count: number, make: (n: number) => T) => Array.from({ length: count }, (_, n) => make(n));
  const last = (faults: Fault[]) => [faults.length, faults[0]?.path, faults[0]?.message];

  it('are 20 regular expressions, of which the 21st is not even read', () => {
    expect(faultsOf(many(20, (n) => matches(`^web${n}$`)))).to.deep.equal([]);
    expect(last(faultsOf(many(21, (n) => matches(`^web${n}$`))))).to.deep.equal([
      1,
      'conditions.conditions.20.value',
      'A filter can have at most 20 regular expressions.',
    ]);
  });

  it('are regular expressions of a bounded size together', () => {
    const sized = (n: number) => matches(`[ab]{255}[cd]{255}[ef]{255}${n}`);
    expect(faultsOf([sized(1), sized(2)])).to.deep.equal([]);
    const [found] = faultsOf([sized(1), sized(2), sized(3)]);
    expect(found?.path).to.equal('conditions.conditions.2.value');
    expect(found?.message).to.include('at most 2000 characters in total');

    const long = (n: number) => matches(`${n}`.padEnd(250, 'x'));
    expect(faultsOf(many(7, long))).to.deep.equal([]);
    expect(faultsOf(many(9, long))[0]?.message).to.include('at most 2000 characters in total');

    const dense = (n: number) => matches(`(a?){120}${n}`);
    expect(faultsOf([dense(1), dense(2)])).to.deep.equal([]);
    expect(faultsOf([dense(1), dense(2), dense(3)])[0]?.message).to.include('at most 16000 transitions');
  });

  it('are 100 conditions on what a device has many of', () => {
    for (const [field, operator, value] of [
      ['software.installed', 'contains', 'office'],
      ['software.notInstalled', 'contains', 'office'],
      ['tags', 'contains', 'till'],
      ['groupId', 'isNull', undefined],
    ] as const) {
      const one = { field, operator, ...(value === undefined ? {} : { value }) };
      expect(faultsOf(many(100, () => one))).to.deep.equal([]);
      expect(last(faultsOf(many(101, () => one)))).to.deep.equal([
        1,
        'conditions.conditions.100.value',
        'A filter can have at most 100 conditions on tags, groups, software, custom lists and averages.',
      ]);
    }
  });

  it('are 10,000 conditions, and what is beyond is not read', () => {
    const one = { field: 'hostname', operator: 'equals', value: 'a' };
    expect(faultsOf(many(10_000, () => one))).to.deep.equal([]);
    expect(last(faultsOf([...many(10_000, () => one), ...many(20_000, () => ({}))]))).to.deep.equal([
      1,
      'conditions',
      'must have at most 10000 conditions, groups not counted',
    ]);
  });

  it('is not compiled when it is read, and once when it is evaluated', () => {
    const compile = sinon.spy(RE2JS, 'compile');
    try {
      const conditions = many(20, (n) => matches(`^only-here-${n}$`));
      const device = { hostname: 'till' } as Parameters<
        Extract<ReturnType<typeof parse>, { ok: true }>['conditions']['matches']
      >[0];
      const read = parse(conditions);
      const again = parse(conditions);
      expect(compile.callCount).to.equal(0);
      for (const parsed of [read, again, again]) {
        if (!parsed.ok) throw new Error('not taken');
        expect(parsed.conditions.matches(device, 0)).to.equal(false);
      }
      expect(compile.callCount).to.equal(20);
    } finally {
      compile.restore();
    }
  });
});

describe('patterns that are kept', () => {
  it('are those that were asked for last, and no more than a size of all', () => {
    const made: string[] = [];
    const cache = new PatternCache((source) => {
      made.push(source);
      return { source, cost: { size: 40 } };
    }, 100);
    const first = cache.get('a');
    cache.get('b');
    expect(cache.get('a')).to.equal(first);
    cache.get('c');
    cache.get('a');
    cache.get('b');
    expect(made).to.deep.equal(['a', 'b', 'c', 'b']);
  });

  it('may be one that is larger than what is kept', () => {
    const cache = new PatternCache((source) => ({ source, cost: { size: 1000 } }), 100);
    expect(cache.get('a').source).to.equal('a');
    expect(cache.get('b').source).to.equal('b');
  });
});
