import { expect } from 'chai';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { brokenReferences, pageFaults, type Repository } from './doc-links.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const FOLDERS = ['src', 'test', 'docs', 'migrations', 'bench', 'seeds', 'clients/typescript/examples'];
const DECISIONS = 'docs/decisions';

const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');

function filesBelow(folder: string): string[] {
  return readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((file) =>
    path.posix.join(folder, ...file.split(path.sep)),
  );
}

const files = FOLDERS.flatMap(filesBelow);
const Manifest = z.object({ scripts: z.record(z.string(), z.string()) });
const { scripts } = Manifest.parse(JSON.parse(read('package.json')));
const repository: Repository = {
  exists: (file) => existsSync(path.join(ROOT, file)),
  matches(pattern) {
    const escaped = pattern.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`));
    const expression = new RegExp(`^${escaped.join('[^/]*')}$`);
    return files.some((file) => expression.test(file));
  },
  npmScripts: new Set(Object.keys(scripts)),
};
const none = (faults: string[]) => expect(faults, `\n${faults.join('\n')}\n`).to.deep.equal([]);

describe('the documents', () => {
  const pages = [
    'README.md',
    'clients/typescript/README.md',
    ...files.filter((file) => file.startsWith('docs/') && file.endsWith('.md')),
  ];

  it('name only files, links and npm scripts that exist', () => {
    expect(pages.length, 'pages that were read').to.be.above(30);
    none(pages.flatMap((page) => brokenReferences(page, read(page), repository)));
  });

  it('that comments in the code refer to exist', () => {
    const sources = files.filter((file) => /\.(?:ts|mjs|sql)$/.test(file) && !file.includes('doc-links'));
    const references = sources.flatMap((file) =>
      [...read(file).matchAll(/docs\/[\w/-]+\.md/g)].map(([document]) => ({ file, document })),
    );
    expect(references.length, 'references in comments').to.be.above(10);
    const broken = references.filter(({ document }) => !repository.exists(document));
    none(broken.map(({ file, document }) => `${file} refers to ${document}, which does not exist`));
  });

  it('list every feature in the README, and no other', () => {
    const [, table = ''] = /The features, by subject:\n([\s\S]*?)\n\n[^|]/.exec(read('README.md')) ?? [];
    const listed = [...table.matchAll(/`([a-z-]+)`/g)].flatMap(([, name]) => name ?? []);
    const features = readdirSync(path.join(ROOT, 'src/features'), { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? entry.name : [],
    );
    expect(listed.toSorted()).to.deep.equal(features.toSorted());
  });

  it('about decisions have the same form, and a line each in the index', () => {
    const index = read(`${DECISIONS}/README.md`);
    const decisions = readdirSync(path.join(ROOT, DECISIONS)).filter((file) => file !== 'README.md');
    none(decisions.flatMap((file) => pageFaults(file, read(`${DECISIONS}/${file}`), index)));
  });
});

describe('the checks of the documents', () => {
  const planted: readonly [string, string][] = [
    ['a link to a missing file', 'See [the page](decisions/missing.md).'],
    ['a path that does not exist', 'See `src/hub/missing.ts`.'],
    ['a pattern without a match', 'See `test/missing/*.test.ts`.'],
    ['a file name without its path', 'See `device-actor.ts`.'],
    [
      'an example with an import that does not exist',
      "```ts\nimport { a } from '../../platform/missing.ts';\n```",
    ],
    ['an unknown script', '```sh\nnpm run missing\n```'],
  ];
  for (const [fault, text] of planted) {
    it(`find ${fault}`, () => {
      expect(brokenReferences('docs/page.md', text, repository)).to.have.length(1);
    });
  }

  it('accept what exists', () => {
    const text = 'See [the tests](decisions/tests.md), `src/main.ts`, `<noun>.schema.ts`; run `npm test`.';
    expect(brokenReferences('docs/page.md', text, repository)).to.deep.equal([]);
  });

  it('find a decision page without its form or its line in the index', () => {
    const page = '# A title\n\nA sentence.\n\n## Background\n\n## Decision\n\n## Consequence\n';
    const line = '| [A title](page.md) | A sentence. |';
    expect(pageFaults('page.md', page, `${line}\n`)).to.deep.equal([]);
    expect(pageFaults('page.md', page, '')).to.have.length(1);
    expect(pageFaults('page.md', page.replace('## Decision', ''), line)).to.have.length(1);
    expect(pageFaults('page.md', page.replace('A sentence.', ''), line)).to.have.length(2);
  });
});
