import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

/** SQL stands where a reader looks for it: in the queries files of features, and below `platform/db` (DESIGN 2). */

const ROOT = fileURLToPath(new URL('../../src', import.meta.url));
const MAY_CALL_RAW = /(^|\/)[\w-]*\.?queries\.ts$|^platform\/db\//;

/** Statements that may lock rows and change them, with the reason. */
const MAY_LOCK_AND_CHANGE: Readonly<Record<string, string>> = {
  'features/devices/agent-credential.queries.ts':
    'No record refers to the credentials that it locks and changes.',
};

const callsRaw = (text: string): boolean => /\.raw(?:<[^(]*>)?\(/.test(text);

const TEMPLATE = /`[^`]*`/g;
const LOCK = /\bfor (?:no key )?update\b(?! of \w+ skip locked| skip locked)/;
/** Whether one statement waits for the locks of rows and changes rows (docs/adding-a-feature.md). */
const locksAndChanges = (text: string): boolean =>
  (text.match(TEMPLATE) ?? []).some(
    (sql) =>
      LOCK.test(sql) && /\bupdate (?!of\b|skip\b|set\b|nowait\b)\w/.test(sql.replaceAll(/do update\b/g, '')),
  );

describe('SQL', () => {
  it('is written in queries files only', () => {
    const files = readdirSync(ROOT, { recursive: true, encoding: 'utf8' })
      .map((file) => file.split(path.sep).join('/'))
      .filter((file) => /\.tsx?$/.test(file));
    const elsewhere = files.filter(
      (file) => !MAY_CALL_RAW.test(file) && callsRaw(readFileSync(path.join(ROOT, file), 'utf8')),
    );
    expect(elsewhere).to.deep.equal([]);
    expect(files.filter((file) => file.endsWith('.queries.ts'))).to.have.length.above(30);
  });

  it('locks rows in one statement and changes them in the next', () => {
    const files = readdirSync(ROOT, { recursive: true, encoding: 'utf8' })
      .map((file) => file.split(path.sep).join('/'))
      .filter((file) => MAY_CALL_RAW.test(file) && file.endsWith('.ts'));
    const both = files.filter((file) => locksAndChanges(readFileSync(path.join(ROOT, file), 'utf8')));
    expect(both.sort()).to.deep.equal(Object.keys(MAY_LOCK_AND_CHANGE));
  });

  it('would be found to lock and change at once', () => {
    const change = 'update t set a = 1 from x where x.id = t.id';
    for (const [lock, isFound] of [
      ['for no key update', true],
      ['for update of t', true],
      ['for no key update of t skip locked', false],
      ['for update skip locked', false],
      ['for share', false],
    ] as const) {
      expect(locksAndChanges(`\`with x as (select id from t ${lock}) ${change}\``), lock).to.equal(isFound);
      expect(locksAndChanges(`\`select id from t ${lock}\`; \`${change}\``), lock).to.equal(false);
    }
  });

  it('would be found in another file, with the type of its rows and without', () => {
    expect(callsRaw('await tx.raw(`select 1`)')).to.equal(true);
    expect(callsRaw('await tx.raw<{ rows: { a: Map<string, number> }[] }>(SQL)')).to.equal(true);
    expect(callsRaw("query.whereRaw('a = b'); String.raw`x`")).to.equal(false);
    expect(MAY_CALL_RAW.test('features/sites/site.service.ts')).to.equal(false);
    expect(MAY_CALL_RAW.test('features/sites/site.queries.ts')).to.equal(true);
  });
});
