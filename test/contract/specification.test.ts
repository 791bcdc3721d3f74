import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'chai';
import committed from './specification-routes.json' with { type: 'json' };
import { allRows, nameOf } from './row-kinds.ts';
import { namedRoutes, sections, withoutNames } from './specification-routes.ts';

/**
 * The routes of the specification (SPEC 4, and SHAPES where it names whole paths) against the route table. The documents
 * stand beside the checkout, where a clean clone has none, so the list that was read from them is committed. It is
 * compared with the table everywhere, and with the documents wherever they are.
 */

const FOLDER = process.env['MUSTER_SHARED'] ?? path.join(import.meta.dirname, '../../../shared');

/** Sections of SHAPES whose routes are made. Those from 16 on are made later. */
const MADE = [4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 19];

/** What the documents name and the table has not, each with the reason. */
const EXCEPTIONS: Record<string, string> = {
  'GET /options': 'SHAPES 9 writes it below /sso/link, where it is',
  'POST /start/:': 'SHAPES 9 writes it below /sso/link, where it is',
};

function read() {
  const text = (name: string) => readFileSync(path.join(FOLDER, name), 'utf8');
  const spec = namedRoutes(sections(text('SPEC.md'), [4]));
  const shapes = namedRoutes(sections(text('SHAPES.md'), MADE));
  return { spec, shapes: shapes.filter((route) => !spec.includes(route)) };
}

describe('the routes of the specification', () => {
  const mounted = new Set(allRows.map((row) => withoutNames(nameOf(row))));

  it('are all in the route table', () => {
    expect(committed.spec.length).to.be.greaterThan(130);
    const missing = [...committed.spec, ...committed.shapes].filter((route) => !mounted.has(route));
    expect(missing).to.have.members(Object.keys(EXCEPTIONS));
  });

  // No test is skipped where the folder is absent, because the list above is then all that can be compared.
  if (existsSync(FOLDER)) {
    it('are those that the committed list has (test/contract/specification-routes.json)', () => {
      expect(read()).to.deep.equal(committed);
    });
  } else {
    before(() => process.stdout.write(`      ${FOLDER} is not here: only the committed list is compared\n`));
  }

  it('are found in each form in which the documents write them', () => {
    const text = `## 3. Other
| GET | /not/read | |
## 4. Endpoints
| Method | Path | Notes |
| POST | /orgs/sites | text of POST to others |
Jobs: GET, POST /jobs; GET, PATCH (shallow merge), DELETE /jobs/:id; \`GET/PUT /both/:name\`. Then DELETE /last.
| POST /pairs/:one/of/:two \`{ body }\` | answer |
#### 4.1 Inside
GET /inside?query
## 5. After
GET /after`;
    expect(namedRoutes(sections(text, [4]))).to.deep.equal([
      'DELETE /jobs/:',
      'DELETE /last',
      'GET /both/:',
      'GET /inside',
      'GET /jobs',
      'GET /jobs/:',
      'PATCH /jobs/:',
      'POST /jobs',
      'POST /orgs/sites',
      'POST /pairs/:/of/:',
      'PUT /both/:',
    ]);
  });
});
