import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type Machine, testFile } from './machines.ts';
import { type SqlChange, sqlChanges } from './sql-guards.ts';

const ROOT = path.join(import.meta.dirname, '../..');

/** What the tests read. The dashboard is left out: its files are many, and no SQL is in them. */
const COPIED = ['src', 'test', 'migrations', 'package.json', '.mocharc.json', 'tsconfig.json'];

/**
 * For how much longer than without any change the tests may run. Those that wait for what a change has ended for ever have
 * noticed it.
 */
const LIMIT_MS = 60_000;

/** Postgres refuses the statement, or Knex counts other parameters: no test is needed to notice that. */
const NOT_VALID =
  /syntax error at or near|could not determine data type|column reference .* is ambiguous|Expected \d+ bindings|Undefined binding/;

export type SqlStatus = 'Killed' | 'Timeout' | 'Survived' | 'RuntimeError';

export interface TriedChange {
  status: SqlStatus;
  fileName: string;
  line: number;
  before: string;
  replacement: string;
}

/** Every nth of all changes, so that no more than `sample` are tried. */
export function sampled<T>(changes: readonly T[], sample: number): T[] {
  const step = Math.max(1, changes.length / sample);
  return Array.from(
    { length: Math.min(sample, changes.length) },
    (_, i) => changes[Math.floor(i * step)],
  ).filter((change) => change !== undefined);
}

/** Changes one guard at a time in a copy of the project, and runs the tests of the machine against each change. */
export async function tryGuards(
  machine: Machine,
  options: {
    temporary: string;
    files: readonly string[];
    sample: number;
    tell: (tried: TriedChange) => void;
  },
): Promise<TriedChange[]> {
  const copy = copyOfProject(path.join(options.temporary, machine.name));
  const tests = machine.tests.map(testFile);
  const begun = performance.now();
  const first = await runTests(copy, tests, 10 * LIMIT_MS);
  const limitMs = LIMIT_MS + performance.now() - begun;
  if (first.status !== 'Survived') {
    throw new Error(`The tests of ${machine.name} fail without any change.\n${first.output}`);
  }
  const changes = options.files.flatMap((fileName) => {
    const source = readFileSync(path.join(ROOT, fileName), 'utf8');
    return sqlChanges(fileName, source).map((change) => ({ fileName, source, change }));
  });
  const tried: TriedChange[] = [];
  for (const { fileName, source, change } of sampled(changes, options.sample)) {
    const changed = path.join(copy, fileName);
    writeFileSync(changed, source.slice(0, change.start) + change.replacement + source.slice(change.end));
    const { status } = await runTests(copy, tests, limitMs);
    writeFileSync(changed, source);
    const one = { status, fileName, ...shown(source, change) };
    tried.push(one);
    options.tell(one);
  }
  return tried;
}

const shown = (source: string, { start, end, replacement }: SqlChange) => ({
  line: source.slice(0, start).split('\n').length,
  before: source.slice(start, end),
  replacement,
});

function copyOfProject(copy: string): string {
  mkdirSync(copy);
  for (const name of COPIED) {
    cpSync(path.join(ROOT, name), path.join(copy, name), {
      recursive: true,
      filter: (source) => path.relative(ROOT, source) !== path.join('src', 'dashboard'),
    });
  }
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'));
  return copy;
}

async function runTests(
  copy: string,
  tests: readonly string[],
  limitMs = LIMIT_MS,
): Promise<{ status: SqlStatus; output: string }> {
  const mocha = spawn(process.execPath, ['node_modules/mocha/bin/mocha.js', '--bail', ...tests], {
    cwd: copy,
    // Mocha starts Node again with the options of its file, and both have to end.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [mocha.stdout, mocha.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  let isLate = false;
  const limit = setTimeout(() => {
    isLate = true;
    if (mocha.pid !== undefined) process.kill(-mocha.pid, 'SIGKILL');
  }, limitMs);
  const code = await new Promise((resolve, reject) => {
    mocha.once('error', reject);
    mocha.once('close', resolve);
  });
  clearTimeout(limit);
  if (isLate) return { status: 'Timeout', output };
  if (code === 0) return { status: 'Survived', output };
  return { status: NOT_VALID.test(output) ? 'RuntimeError' : 'Killed', output };
}
