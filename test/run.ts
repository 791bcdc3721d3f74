import { spawn } from 'node:child_process';
import { readdirSync, statfsSync } from 'node:fs';
import path from 'node:path';
import { BUILT_PROGRAMS_VARIABLE, buildPrograms } from './support/built-programs.ts';
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from './support/test-postgres.ts';

/**
 * `npm test` runs every test on one Postgres, with our programs built once. Test files run in parallel; those that start
 * whole programs run afterwards, fewer at a time, because each of them keeps several processes busy.
 * With arguments it runs Mocha with those: `npm test -- test/hub/device/mailbox.test.ts`.
 */
const ROOT = path.join(import.meta.dirname, '..');
const MOCHA = path.join(ROOT, 'node_modules/mocha/bin/mocha.js');
/** More than the two cores of a small machine, because tests also wait: for databases, for flushes, for frames. */
const JOBS = 3;
const PROGRAM_JOBS = 2;
/** In bytes: many times what the databases that exist at once take. */
const ROOM_IN_MEMORY = 2 * 1024 ** 3;
const WHOLE_PROGRAMS = [/^test\/e2e\//, /^test\/platform\/embedded-postgres/];

function testFiles(): string[] {
  return readdirSync(path.join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => path.posix.join('test', ...file.split(path.sep)))
    .sort();
}

function mocha(words: string[], settings: Record<string, string>): Promise<number> {
  const env = { ...process.env, ...settings };
  const child = spawn(process.execPath, [MOCHA, ...words], { cwd: ROOT, env, stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
}

/**
 * A folder in memory for the databases of the run, where the system has one with room: a disk takes up to half a second
 * for each of the hundreds of databases that the tests make.
 */
function folderInMemory(): string | undefined {
  const folder = '/dev/shm';
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize >= ROOM_IN_MEMORY ? folder : undefined;
  } catch {
    return undefined;
  }
}

// Ctrl+C reaches Mocha as well; the database ends after it.
process.on('SIGINT', () => {});

const given = process.argv.slice(2);
const [postgres, built] = await Promise.all([
  startTestPostgres({ within: folderInMemory() }),
  given.length > 0 ? undefined : buildPrograms(),
]);
const settings = {
  [TEST_POSTGRES_VARIABLE]: postgres.ownerUrl,
  ...(built === undefined ? {} : { [BUILT_PROGRAMS_VARIABLE]: built.folder }),
};
try {
  if (given.length > 0) {
    process.exitCode = await mocha(given, settings);
  } else {
    const files = testFiles();
    const programs = files.filter((file) => WHOLE_PROGRAMS.some((place) => place.test(file)));
    const together = files.filter((file) => !programs.includes(file));
    const codes = [
      await mocha(['--parallel', '--jobs', String(JOBS), ...together], settings),
      await mocha(['--parallel', '--jobs', String(PROGRAM_JOBS), ...programs], settings),
    ];
    process.exitCode = codes.every((code) => code === 0) ? 0 : 1;
  }
} finally {
  await built?.remove();
  await postgres.stop();
}
