import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { BUILT_AGENT_VARIABLE, buildOwnAgent } from './support/built-agent.ts';
import { BUILT_PROGRAMS_VARIABLE, buildPrograms } from './support/built-programs.ts';
import { BUNDLED_PROGRAMS_VARIABLE, bundlePrograms } from './support/bundled-programs.ts';
import { changedPrograms } from './support/runner/changed-programs.ts';
import { FILE_TIMES_VARIABLE, filesToRepeat, slowestFiles, slowTests } from './support/file-times.ts';
import { useTemporaryFolder } from './support/temporary-folder.ts';
import { SLOWNESS_VARIABLE } from './support/runner/rules.ts';
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from './support/test-postgres.ts';

/**
 * `npm test` runs the tiers `unit`, `server` and `contract`, and of the tier `programs` the smokes and what the changes of
 * the last day concern. `npm run test:programs` runs all of `programs`. With arguments it runs Mocha with
 * those: `npm test -- test/unit/hub/device/mailbox.test.ts`. Why: docs/decisions/tests.md.
 *
 * `--which` prints the files of `programs` that `npm test` would run, so that the gate can install what they need.
 * MUSTER_TEST_SINCE names another commit than the newest that is older than a day.
 */
const ROOT = path.join(import.meta.dirname, '..');
const MOCHA = path.join(ROOT, 'node_modules/mocha/bin/mocha.js');
/** More than the two cores of a small machine, because tests also wait for databases and frames. */
const JOBS = 3;
const SMOKES = 'test/programs/smoke/';
/** They begin first, so that none of them is still running when all others have ended. `npm test` names the slowest. */
const LONGEST = [
  // The smokes wait for programs, beside which the others run.
  'programs/smoke/agent-upgrade',
  'programs/smoke/backup-round-trip',
  'programs/smoke/supported-nodes',
  'programs/smoke/demo',
  'programs/smoke/pages',
  'programs/smoke/agent',
  'programs/smoke/muster',
  'contract/routes',
  'contract/bad-input',
  'server/features/sso/saml/forgeries',
  'server/features/agents/heartbeat',
  'programs/windows/event-logs',
  'programs/windows/upgrade',
  'programs/windows/agent',
  'programs/contract/every-route',
  'programs/contract/every-body',
  'programs/deployment/proxies',
  'programs/cli/operator-commands',
  'programs/platform/migrations',
  'programs/cli/installation-backup/faults',
  'programs/cli/installation-backup/drill',
  'programs/hub/cluster/redis-failover',
  'programs/hub/cluster/redis-cluster',
  'programs/hub/cluster/redis-kinds',
  'programs/e2e/backup-faults',
  'programs/e2e/install',
  'programs/e2e/faults/random',
  'programs/e2e/faults/fleet',
].map((name) => `test/${name}.test.ts`);
/** So many files are named at the end. */
const SLOWEST = 40;

function rank(file: string): number {
  const at = LONGEST.indexOf(file);
  return at === -1 ? LONGEST.length : at;
}

/** The test files of a tier. */
function testFiles(tier: 'unit' | 'server' | 'contract' | 'programs'): string[] {
  const folder = path.posix.join('test', tier);
  return readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => path.posix.join(folder, ...file.split(path.sep)));
}

const inOrder = (files: string[]) =>
  files.toSorted((one, other) => rank(one) - rank(other) || (one < other ? -1 : 1));

/** @returns the exit code */
function mocha(words: string[], settings: Record<string, string>): Promise<number> {
  const env = { ...process.env, ...settings };
  const child = spawn(process.execPath, [MOCHA, ...words], { cwd: ROOT, env, stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
}

/**
 * Whether a file with tests that were too long beside others passes when nothing runs beside it. It may try twice, because
 * a disk that stalls once says nothing about a test.
 */
async function passesAlone(file: string, postgresUrl: string, tries = 2): Promise<boolean> {
  // In a process of its own a test also pays for the start of what the files before it would have started.
  const env = { ...process.env, [TEST_POSTGRES_VARIABLE]: postgresUrl, [SLOWNESS_VARIABLE]: '4' };
  const name = path.relative(ROOT, file);
  try {
    await promisify(execFile)(process.execPath, [MOCHA, file], {
      cwd: ROOT,
      env,
      maxBuffer: 64 * 1024 * 1024,
    });
    process.stdout.write(`Too long beside other files, and not alone: ${name}\n`);
    return true;
  } catch (error) {
    if (tries > 1) return passesAlone(file, postgresUrl, tries - 1);
    const { stdout = '' } = error as { stdout?: string };
    // Not as Mocha writes it, so that the numbers of the run itself stay the ones that count.
    process.stdout.write(`FAILED, repeated alone: ${name}\n${stdout.replaceAll(/^/gm, '| ')}\n`);
    return false;
  }
}

/** Into its usual place, where the test files that need it find it. */
async function buildDashboard(): Promise<void> {
  const words = [path.join(ROOT, 'src/run.mjs'), path.join(ROOT, 'src/cli/build-dashboard.ts')];
  await promisify(execFile)(process.execPath, words, { cwd: ROOT });
}

function programsToRun(all: boolean): string[] {
  const files = testFiles('programs');
  if (all) return files;
  const smokes = files.filter((file) => file.startsWith(SMOKES));
  const { tests, reason } = changedPrograms(ROOT, process.env['MUSTER_TEST_SINCE']);
  const concerned = tests.filter((file) => !smokes.includes(file));
  process.stdout.write(
    `Of ${files.length} files of tests of programs, ${smokes.length} smokes run and ${concerned.length} others, ` +
      `because ${reason}.\n${concerned.map((file) => `  ${file}\n`).join('')}`,
  );
  return [...smokes, ...concerned];
}

// Ctrl+C reaches Mocha as well; the database ends after it.
process.on('SIGINT', () => {});

const given = process.argv.slice(2);
if (given[0] === '--which') {
  process.stdout.write(
    programsToRun(false)
      .map((file) => `${file}\n`)
      .join(''),
  );
  process.exit();
}
const isWhole = given.length === 0 || given[0] === '--programs';
const temporary = useTemporaryFolder();
const postgres = await startTestPostgres();
const times = process.env[FILE_TIMES_VARIABLE] ?? path.join(temporary, 'times');
const settings = { [TEST_POSTGRES_VARIABLE]: postgres.ownerUrl };
try {
  if (!isWhole) {
    process.exitCode = await mocha(given, settings);
  } else {
    const isProgramsOnly = given.length > 0;
    const files = programsToRun(isProgramsOnly);
    if (!isProgramsOnly) files.push(...testFiles('contract'), ...testFiles('server'), ...testFiles('unit'));
    const [bundled, agent, built] = await Promise.all([
      bundlePrograms(),
      buildOwnAgent(),
      buildPrograms(),
      buildDashboard(),
    ]);
    process.exitCode = await mocha(['--parallel', '--jobs', String(JOBS), ...inOrder(files)], {
      ...settings,
      [FILE_TIMES_VARIABLE]: times,
      [BUNDLED_PROGRAMS_VARIABLE]: bundled,
      [BUILT_AGENT_VARIABLE]: agent.folder,
      [BUILT_PROGRAMS_VARIABLE]: built.folder,
    });
    if (existsSync(times)) {
      const lines = [...slowestFiles(times, ROOT, SLOWEST), ...slowTests(times, ROOT)];
      process.stdout.write(`${lines.join('\n')}\n`);
      for (const file of filesToRepeat(times)) {
        if (!(await passesAlone(file, postgres.ownerUrl))) process.exitCode ||= 1;
      }
    }
  }
} finally {
  await postgres.stop();
}
