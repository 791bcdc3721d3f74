import { expect } from 'chai';
import fc from 'fast-check';
import { PatternFault } from '../../../../src/features/conditions/pattern-cost.ts';
import { readPattern } from '../../../../src/features/conditions/pattern.ts';
import { processorMs } from '../../../support/processor-time.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

describe('regular expressions of conditions', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase();
  });
  after(async () => database.drop());

  const LETTERS = [
    'a',
    'b',
    'B',
    'Z',
    '0',
    '9',
    '_',
    '-',
    ' ',
    '\n',
    '\t',
    'é',
    'É',
    'ß',
    'ſ',
    'K',
    'σ',
    'ς',
    'Σ',
    '😀',
    '𐐀',
    '𐐨',
    '.',
    '\\',
    '[',
    ']',
    '{',
    '}',
    '(',
    ')',
    '*',
    '^',
    '$',
    '|',
    '?',
    '+',
    '中',
    '\u00a0',
  ];
  const text = fc.array(fc.constantFrom(...LETTERS), { maxLength: 8 }).map((letters) => letters.join(''));
  const escaped = (letter: string) => (/[\\.[\](){}*+?^$|-]/.test(letter) ? `\\${letter}` : letter);
  const bracketItem = fc.oneof(
    fc.constantFrom(...LETTERS).map(escaped),
    fc.constantFrom(
      'a-z',
      'A-Z',
      '0-9',
      'à-ÿ',
      '😀-😂',
      '\\d',
      '\\D',
      '\\w',
      '\\W',
      '\\s',
      '\\S',
      '\\n',
      '\\t',
      '\\x{e9}',
      '[:alpha:]',
      '[:^digit:]',
      '[:space:]',
      '[:punct:]',
    ),
  );
  const atom = fc.oneof(
    fc.constantFrom(...LETTERS).map(escaped),
    fc.constantFrom(
      '.',
      '\\d',
      '\\D',
      '\\w',
      '\\W',
      '\\s',
      '\\S',
      '\\x41',
      '\\u00e9',
      '\\x{1F600}',
      '{',
      '}',
      ']',
    ),
    fc
      .tuple(fc.boolean(), fc.array(bracketItem, { minLength: 1, maxLength: 4 }))
      .map(([not, items]) => `[${not ? '^' : ''}${items.join('')}]`),
  );
  const repeat = fc.constantFrom('', '', '', '*', '+', '?', '*?', '+?', '??', '{2}', '{0,2}', '{1,}', '{0}');
  const { pattern } = fc.letrec<{ pattern: string; branch: string; piece: string }>((tie) => ({
    pattern: fc.array(tie('branch'), { minLength: 1, maxLength: 2 }).map((branches) => branches.join('|')),
    branch: fc.array(tie('piece'), { maxLength: 3 }).map((pieces) => pieces.join('')),
    piece: fc.oneof(
      { maxDepth: 3 },
      fc.tuple(atom, repeat).map(([one, times]) => one + times),
      fc.constantFrom('^', '$', '\\b', '\\B', '\\A', '\\z'),
      fc
        .tuple(fc.constantFrom('(', '(?:', '(?P<n>', '(?<n>'), tie('pattern'), repeat)
        .map(([open, inner, times]) => `${open}${inner})${times}`),
    ),
  }));

  it('match the same in memory and in Postgres, and what RE2 takes is taken there', async function () {
    let taken = 0;
    let matched = 0;
    let asked = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.tuple(fc.constantFrom('', '(?i)'), pattern).map(([flag, one]) => flag + one),
          { minLength: 20, maxLength: 20 },
        ),
        fc.array(text, { minLength: 20, maxLength: 20 }),
        async (sources, texts) => {
          for (const source of sources) {
            let read;
            try {
              read = readPattern(source);
            } catch (error) {
              expect(error, source).to.be.instanceOf(PatternFault);
              continue;
            }
            taken += 1;
            const rows = await asOwner<{ is: boolean }>(
              database.ownerUrl,
              'select t ~ $1 as is from unnest($2::text[]) with ordinality as u (t, n) order by n',
              [read.postgres, texts],
            ).catch((error: unknown) => {
              throw new Error(`${JSON.stringify(source)} → ${read.postgres}: ${String(error)}`);
            });
            for (const [index, one] of texts.entries()) {
              expect(read.test(one), JSON.stringify([source, read.postgres, one])).to.equal(rows[index]?.is);
              matched += rows[index]?.is === true ? 1 : 0;
              asked += 1;
            }
          }
        },
      ),
      { numRuns: Number(process.env['PATTERN_RUNS'] ?? 15) },
    );
    expect(taken).to.be.greaterThan(200);
    expect(matched / asked).to.be.within(0.1, 0.9);
  });

  const refused: [string, RegExp][] = [
    ['(', /without \)/],
    [')', /without \(/],
    ['[', /without \]/],
    ['[]', /without \]/],
    ['[z-a]', /range/],
    ['*a', /nothing to repeat/],
    ['a**', /nothing to repeat/],
    ['^*', /nothing to repeat/],
    ['\\b+', /nothing to repeat/],
    ['a{2}{3}', /nothing to repeat/],
    ['a{256}', /255/],
    ['a{3,2}', /maximum below its minimum/],
    ['(a)\\1', /back-reference/],
    ['(?=a)', /look-ahead/],
    ['(?!a)', /look-ahead/],
    ['(?<=a)b', /look-behind/],
    ['(?<!a)b', /look-behind/],
    ['a(?i)b', /flags/],
    ['(?s).', /flags/],
    ['(?#x)', /flags/],
    ['\\p{L}', /Unicode classes/],
    ['\\Z', /unknown escape/],
    ['\\Qa\\E', /unknown escape/],
    ['\\y', /unknown escape/],
    ['\\', /backslash/],
    ['\\x{110000}', /not a character/],
    ['\\ud800', /not a character/],
    ['[[.a.]]', /collating/],
    ['[[:alfa:]]', /unknown character class/],
    ['[^\\w\\W]', /match no character/],
    ['a'.repeat(257), /256/],
    ['((a{100}){100}){100}', /regular expression/],
    ['***:a', /nothing to repeat/],
  ];
  for (const [source, why] of refused) {
    it(`are refused by name: ${source.slice(0, 30)}`, () =>
      expect(() => readPattern(source)).to.throw(PatternFault, why));
  }

  it('take no longer for being hostile', async () => {
    const long = 'a'.repeat(50_000);
    for (const source of [
      '(a+)+$',
      '(a|aa)+$',
      '(a|a)*b',
      '(.*)*x',
      '(a?){60}a{60}$',
      `${'(a*)*'.repeat(20)}b`,
    ]) {
      let inMemory: boolean | undefined;
      const spentMs = await processorMs(() => {
        inMemory = readPattern(source).test(`${long}!`);
      });
      const pattern = readPattern(source);
      expect(spentMs, source).to.be.lessThan(2000);
      const begun = performance.now();
      const [row] = await asOwner<{ is: boolean }>(database.ownerUrl, 'select $1 ~ $2 as is', [
        `${long}!`,
        pattern.postgres,
      ]);
      expect(row?.is).to.equal(inMemory);
      // A tenth of a second on an idle machine; one that tries every way would never end.
      expect(performance.now() - begun, source).to.be.lessThan(20_000);
    }
  });
});
