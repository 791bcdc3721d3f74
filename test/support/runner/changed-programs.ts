import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { buildGraph, type Graph } from '../../contract/import-graph.ts';

/**
 * Which files of `test/programs` the gate runs beside the smokes: those that a change of the last day concerns. The rest
 * runs by `npm run test:programs`.
 */

const PROGRAMS = 'test/programs/';
/** Parts of the house whose folders below `src` and below `test/programs` have the same names, and how deep a part is. */
const PARTS = [
  { folder: 'features/', depth: 2 },
  { folder: 'agent/capabilities/', depth: 3 },
  { folder: 'agent/', depth: 2 },
  { folder: 'platform/', depth: 2 },
  { folder: '', depth: 1 },
];

/** What tests run without importing it: the agent for Windows is built for them. */
const ALSO: Readonly<Record<string, RegExp>> = {
  'test/programs/windows/':
    /^src\/(agent\/(os|cli)\/|agent\/capabilities\/(event-logs|inventory)\/windows|watchdog\/|packaging\/)/,
};

/** For `features/backup/care/watch.ts`: `features/backup`. */
function partOf(file: string): string | undefined {
  const folders = path.posix.dirname(file).split('/');
  const { depth = 1 } = PARTS.find(({ folder }) => file.startsWith(folder)) ?? {};
  return folders.length < depth || folders[0] === '.' ? undefined : folders.slice(0, depth).join('/');
}

/**
 * The tests that the changes concern: their own file, a file beside the tests of programs that they import, or a file of
 * `src` that one of these imports, has changed; or a file of the part of `src` that they are named after.
 * @param changed  paths from the root of the repository, also of files that are gone
 */
export function concernedTests(graph: Graph, changed: ReadonlySet<string>): string[] {
  const parts = new Set(
    [...changed].filter((file) => file.startsWith('src/')).map((file) => partOf(file.slice(4))),
  );
  return [...graph.keys()]
    .filter((file) => file.startsWith(PROGRAMS) && file.endsWith('.test.ts'))
    .filter((test) => {
      const own = ownFiles(graph, test);
      const imported = own.flatMap((file) => graph.get(file)?.imports ?? []);
      const part = partOf(test.slice(PROGRAMS.length));
      const [, also] = Object.entries(ALSO).find(([folder]) => test.startsWith(folder)) ?? [];
      return (
        (also !== undefined && [...changed].some((file) => also.test(file))) ||
        own.some((file) => changed.has(file)) ||
        imported.some(({ target }) => target?.startsWith('src/') === true && changed.has(target)) ||
        (part !== undefined && parts.has(part))
      );
    });
}

/** The test and what it imports of the files beside the tests of programs, at any depth. */
function ownFiles(graph: Graph, test: string): string[] {
  const own = new Set([test]);
  for (const file of own) {
    for (const { target } of graph.get(file)?.imports ?? []) {
      if (target?.startsWith(PROGRAMS) === true) own.add(target);
    }
  }
  return [...own];
}

export interface Selection {
  tests: string[];
  /** For the reader of the run, one sentence. */
  reason: string;
}

/**
 * @param root  of a checkout
 * @param since  a commit to compare with; by default the newest one that is older than a day
 */
export function changedPrograms(root: string, since?: string): Selection {
  const git = (...words: string[]) =>
    execFileSync('git', words, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024, stdio: 'pipe' });
  let base: string;
  try {
    base = (since ?? git('rev-list', '-1', '--before=1 day ago', 'HEAD')).trim();
    if (base === '') return { tests: [], reason: 'no commit is older than a day' };
  } catch {
    return { tests: [], reason: 'this is no checkout of git' };
  }
  const changed = changedSince(root, base, git);
  const tests = concernedTests(graphOf(root), changed);
  return { tests, reason: `${changed.size} files have changed since ${base.slice(0, 8)}` };
}

function changedSince(root: string, base: string, git: (...words: string[]) => string): Set<string> {
  const changed = new Set(list(git('ls-files', '-z', '--others', '--exclude-standard')));
  const fields = list(git('diff', '-z', '-M', '--name-status', base));
  while (fields.length > 0) {
    const [status = '', from = ''] = fields.splice(0, 2);
    if (!/^[RC]/.test(status)) {
      changed.add(from);
      continue;
    }
    const to = fields.shift() ?? '';
    // A file that has only moved shows in those that import it, and proves what it proved.
    const isSame =
      existsSync(path.join(root, to)) &&
      withoutPlaces(git('show', `${base}:${from}`)) ===
        withoutPlaces(readFileSync(path.join(root, to), 'utf8'));
    if (!isSame) changed.add(from).add(to);
  }
  return changed;
}

/** A text without what a move changes: how relative imports and folders are written. */
const withoutPlaces = (text: string) => text.replaceAll(/(['"`])\.{1,2}\/[^'"`\n]*\1/g, '');

const list = (output: string) => output.split('\0').filter((field) => field !== '');

function graphOf(root: string): Graph {
  const sources = new Map<string, string>();
  for (const folder of ['src', 'test']) {
    for (const name of readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })) {
      const file = path.posix.join(folder, ...name.split(path.sep));
      if (/\.tsx?$/.test(file)) sources.set(file, readFileSync(path.join(root, file), 'utf8'));
    }
  }
  return buildGraph(sources, (file) => existsSync(path.join(root, file)));
}
