import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from './support/test-postgres.ts';

/**
 * `npm test` runs every test on one Postgres. Files that share nothing run side by side. Files that start whole
 * programs, or that measure time or memory, run afterwards, one at a time.
 * With arguments it runs Mocha with those: `npm test -- test/hub/mailbox.test.ts`.
 */
const ROOT = path.join(import.meta.dirname, '..');
const MOCHA = path.join(ROOT, 'node_modules/mocha/bin/mocha.js');
/** More than the two cores of a small machine, because tests also wait: for databases, for flushes, for frames. */
const JOBS = 3;
const ONE_AT_A_TIME = [/^test\/e2e\//, /^test\/platform\/embedded-postgres/];

function testFiles(): string[] {
  return readdirSync(path.join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => path.posix.join('test', ...file.split(path.sep)))
    .sort();
}

function mocha(words: string[], ownerUrl: string): Promise<number> {
  const env = { ...process.env, [TEST_POSTGRES_VARIABLE]: ownerUrl };
  const child = spawn(process.execPath, [MOCHA, ...words], { cwd: ROOT, env, stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
}

// Ctrl+C reaches Mocha as well; the database ends after it.
process.on('SIGINT', () => {});

const given = process.argv.slice(2);
const postgres = await startTestPostgres();
try {
  if (given.length > 0) {
    process.exitCode = await mocha(given, postgres.ownerUrl);
  } else {
    const files = testFiles();
    const alone = files.filter((file) => ONE_AT_A_TIME.some((place) => place.test(file)));
    const together = files.filter((file) => !alone.includes(file));
    const codes = [
      await mocha(['--parallel', '--jobs', String(JOBS), ...together], postgres.ownerUrl),
      await mocha(alone, postgres.ownerUrl),
    ];
    process.exitCode = codes.every((code) => code === 0) ? 0 : 1;
  }
} finally {
  await postgres.stop();
}
