import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

/**
 * Words that this project has given up, because a reader who never met us has to guess what they mean. docs/glossary.md
 * lists the words to use. A word with a number is still being replaced: it may stand that often, and the number may only
 * become smaller.
 */
const GIVEN_UP: readonly { word: RegExp; use: string; max?: number }[] = [
  { word: /\b(tells?|telling|told|untold|onTold)\b/gi, use: 'publish, report, notify', max: 324 },
  { word: /\bdesks?\b/gi, use: 'dispatcher', max: 60 },
  { word: /\bgathered\b/gi, use: 'collected, batched', max: 21 },
  { word: /\b(is|are|was|were|be|been) taken for\b/gi, use: 'mistaken for, considered', max: 4 },
  { word: /\bheed(s|ed)?\b/gi, use: 'is affected by', max: 1 },
  { word: /\bwhoever\b/gi, use: 'the caller, the user who, anyone who', max: 40 },
  { word: /\bwhat is there\b/gi, use: 'name the thing', max: 1 },
  { word: /\bturned away\b/gi, use: 'refused', max: 2 },
  { word: /\bsurroundings\b/gi, use: 'environment, machine', max: 2 },
  { word: /\btime is over\b/gi, use: 'has expired', max: 6 },
  { word: /\bholders?\b/gi, use: 'user, member', max: 67 },
  { word: /\bstrays?\b/gi, use: 'orphan', max: 5 },
  { word: /\bname[ -]sheets?\b/gi, use: 'name index', max: 3 },
  { word: /\baskers?\b/gi, use: 'caller', max: 1 },
  { word: /\bnewcomers?\b/gi, use: 'new connection, new user', max: 18 },
  { word: /\blook(s|ed)? whether\b/gi, use: 'check if' },
  { word: /\bin the midst\b/gi, use: 'during' },
  { word: /\borganisations?\b/gi, use: 'organization' },
  { word: /\b(sentFields|ToldJson|ReadyJson|ClosingSteps|EndingConnections)\b/g, use: 'the present names' },
  { word: /\b(GroupFollower|OldEntries|NotedNames|NameSheets)\b/g, use: 'the present names' },
];

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** This list, the glossary with the words that are not used, and what is derived from the sources. */
const EXEMPT = [
  'test/contract/words.test.ts',
  'docs/glossary.md',
  'docs/openapi.json',
  'src/dashboard/api/routes.ts',
  'docs/socket-protocol.md',
];

function texts(): { file: string; text: string }[] {
  const list = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return list
    .split('\n')
    .filter(
      (file) =>
        /^(src|test|docs|clients)\/.*\.(tsx?|md|mjs)$|^README\.md$/.test(file) && !EXEMPT.includes(file),
    )
    .filter((file) => existsSync(path.join(ROOT, file)))
    .map((file) => ({ file, text: readFileSync(path.join(ROOT, file), 'utf8') }));
}

describe('words that were given up', () => {
  const sources = texts();

  it('are looked for in all sources', () => {
    expect(sources.length).to.be.greaterThan(500);
  });

  for (const { word, use, max = 0 } of GIVEN_UP) {
    it(`${word.source} stands at most ${max} times; use: ${use}`, () => {
      const found = sources.flatMap(({ file, text }) =>
        [...text.matchAll(word)].map(({ 0: match, index }) => {
          const line = text.slice(0, index).split('\n').length;
          return `${file}:${line} ${match}`;
        }),
      );
      expect(found.length, `${found.slice(0, 40).join('\n')}\n`).to.be.at.most(max);
    });
  }
});
