import { execFile } from 'node:child_process';
import { appendFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';

const ROOT = path.join(import.meta.dirname, '../../..');
const COMPILE_MS = 240_000;
/** The issue that asked for the kit set it. */
const LINES_MAX = 80;

/** What `npm run docs` would write of the routes of the example. */
const ROUTES = `
export interface Contact { id: string; orgId: string; name: string; phone: (string | null); createdAt: string; updatedAt: string }
export interface Api {
"GET /orgs/contacts": { query: { page?: string; limit?: string; orgId?: string }; response: { data: Contact[]; pagination: Pagination } }
"POST /orgs/contacts": { body: { orgId: string; name: string; phone?: string; endsAt?: string }; response: Contact }
}
`;

describe('the list page in docs/adding-a-feature.md', () => {
  let folder: string;
  let door: string;
  let page: string;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-example-'));
    const text = await readFile(path.join(ROOT, 'docs/adding-a-feature.md'), 'utf8');
    const section = text.slice(text.indexOf('\n## 9.'));
    const blockOf = (language: string) =>
      new RegExp(`^\`\`\`${language}\n(?<code>[\\s\\S]*?)^\`\`\``, 'm').exec(section)?.groups?.['code'] ?? '';
    door = blockOf('ts');
    page = blockOf('tsx');
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it(`has at most ${LINES_MAX} lines, with the dialog that adds a row`, () => {
    const lines = page.trimEnd().split('\n').length;
    expect(lines).to.be.within(30, LINES_MAX);
  });

  it('compiles as it is shown', async function () {
    this.timeout(COMPILE_MS);
    await cp(path.join(ROOT, 'tsconfig.json'), path.join(folder, 'tsconfig.json'));
    await cp(path.join(ROOT, 'package.json'), path.join(folder, 'package.json'));
    await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
    for (const part of ['src/dashboard', 'src/protocol', 'src/nfc.ts']) {
      await cp(path.join(ROOT, part), path.join(folder, part), { recursive: true });
    }
    const dashboard = path.join(folder, 'src/dashboard');
    await appendFile(path.join(dashboard, 'api/routes.ts'), ROUTES);
    const contacts = path.join(dashboard, 'features/contacts');
    await mkdir(contacts);
    await writeFile(path.join(contacts, 'index.ts'), door);
    await writeFile(path.join(contacts, 'contacts-page.tsx'), page);
    const list = path.join(dashboard, 'features/index.ts');
    const pages = await readFile(list, 'utf8');
    await writeFile(
      list,
      `import { contactPages } from './contacts/index.ts';\n${pages.replace('signedInPages = [', 'signedInPages = [...contactPages, ')}`,
    );
    const compiler = path.join(ROOT, 'node_modules/.bin/tsc');
    const faults = await promisify(execFile)(compiler, ['-p', dashboard, '--checkers', '1']).then(
      () => '',
      ({ stdout = 'The compiler did not start.' }: { stdout?: string }) => stdout,
    );
    expect(faults).to.equal('');
  });
});
