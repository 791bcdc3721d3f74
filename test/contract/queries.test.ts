import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

/** SQL stands where a reader looks for it: in the queries files of features, and below `platform/db` (DESIGN 2). */

const ROOT = fileURLToPath(new URL('../../src', import.meta.url));
const MAY_CALL_RAW = /(^|\/)[\w-]*\.?queries\.ts$|^platform\/db\//;

const callsRaw = (text: string): boolean => /\.raw(?:<[^(]*>)?\(/.test(text);

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

  it('would be found in another file, with the type of its rows and without', () => {
    expect(callsRaw('await tx.raw(`select 1`)')).to.equal(true);
    expect(callsRaw('await tx.raw<{ rows: { a: Map<string, number> }[] }>(SQL)')).to.equal(true);
    expect(callsRaw("query.whereRaw('a = b'); String.raw`x`")).to.equal(false);
    expect(MAY_CALL_RAW.test('features/sites/site.service.ts')).to.equal(false);
    expect(MAY_CALL_RAW.test('features/sites/site.queries.ts')).to.equal(true);
  });
});
