import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { BUILT_AGENT_VARIABLE, buildOwnAgent } from './support/built-agent.ts';
import { BUILT_PROGRAMS_VARIABLE, buildPrograms } from './support/built-programs.ts';
import { BUNDLED_PROGRAMS_VARIABLE, bundlePrograms } from './support/bundled-programs.ts';
import { FILE_TIMES_VARIABLE, slowestFiles } from './support/file-times.ts';
import { useTemporaryFolder } from './support/temporary-folder.ts';
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from './support/test-postgres.ts';

/**
 * `npm test` runs every test on one Postgres, with our programs bundled once. Test files run in parallel; those that start
 * whole programs run afterwards, when the agent and all programs have been built for them as they are released.
 * With arguments it runs Mocha with those: `npm test -- test/hub/device/mailbox.test.ts`.
 */
const ROOT = path.join(import.meta.dirname, '..');
const MOCHA = path.join(ROOT, 'node_modules/mocha/bin/mocha.js');
/** More than the two cores of a small machine, because tests also wait: for databases, for frames, for programs. */
const JOBS = 3;
/** They begin first, so that none of them is still running when all others have ended. `npm test` names the slowest. */
const LONGEST = [
  'contract/bad-input',
  // It waits for half a minute, beside which others run.
  'deployment/proxies',
  'contract/routes',
  'agent/session/agent-process',
  'agent/session/agent-logs',
  'features/sso/saml/forgeries',
  'features/releases/registry/command-line',
  'features/audit/verification/muster-audit',
  'cli/operator-commands',
  'cli/installation-backup/faults',
  'cli/installation-backup/drill',
  'features/sso/enforcement/unlock',
  'features/backup/store-restic',
  'features/agents/heartbeat',
  'features/audit/verification/tampering',
  'platform/lost-connections',
  'agent/work/durable-runner',
  'agent/core/connection/connection',
  'agent/core/connection/http-heartbeats',
  'features/backup/care/rotation',
  'features/backup/care/retention',
  'hub/cluster/redis-cluster',
  'platform/s3',
  'platform/migrations',
  'platform/redis-limits',
  'engine/keys-and-care',
  'cli/remote',
  'dashboard/pages',
  'e2e/backup-faults',
  'e2e/install',
  'e2e/supported-nodes',
  'platform/embedded-postgres',
  'e2e/faults/redis-lost',
  'e2e/faults/random',
  'e2e/faults/fleet',
  'e2e/faults/postgres-lost',
  'e2e/faults/agents',
  'e2e/agent-program',
  'e2e/backup-round-trip',
].map((name) => `test/${name}.test.ts`);
/** So many files are named at the end. */
const SLOWEST = 40;
const WHOLE_PROGRAMS = [
  /^test\/e2e\//,
  /^test\/watchdog\//,
  /^test\/dashboard\//,
  /^test\/platform\/embedded-postgres/,
];

function rank(file: string): number {
  const at = LONGEST.indexOf(file);
  return at === -1 ? LONGEST.length : at;
}

function testFiles(): string[] {
  return readdirSync(path.join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => path.posix.join('test', ...file.split(path.sep)))
    .sort((one, other) => rank(one) - rank(other) || (one < other ? -1 : 1));
}

function mocha(words: string[], settings: Record<string, string>): Promise<number> {
  const env = { ...process.env, ...settings };
  const child = spawn(process.execPath, [MOCHA, ...words], { cwd: ROOT, env, stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
}

/** Into its usual place, where the test files that need it find it. */
async function buildDashboard(): Promise<void> {
  const words = [path.join(ROOT, 'src/run.mjs'), path.join(ROOT, 'src/cli/build-dashboard.ts')];
  await promisify(execFile)(process.execPath, words, { cwd: ROOT });
}

// Ctrl+C reaches Mocha as well; the database ends after it.
process.on('SIGINT', () => {});

const given = process.argv.slice(2);
const temporary = useTemporaryFolder();
const [postgres, bundled] = await Promise.all([
  startTestPostgres(),
  given.length > 0 ? undefined : bundlePrograms(),
]);
// Only whole programs need these, so the other tests do not wait for them.
const building = given.length > 0 ? undefined : Promise.all([buildOwnAgent(), buildPrograms()]);
const dashboard = given.length > 0 ? undefined : buildDashboard();
building?.catch(() => {});
dashboard?.catch(() => {});
const times = process.env[FILE_TIMES_VARIABLE] ?? path.join(temporary, 'times');
const settings = {
  [FILE_TIMES_VARIABLE]: times,
  [TEST_POSTGRES_VARIABLE]: postgres.ownerUrl,
  ...(bundled === undefined ? {} : { [BUNDLED_PROGRAMS_VARIABLE]: bundled }),
};
try {
  if (given.length > 0) {
    process.exitCode = await mocha(given, settings);
  } else {
    const files = testFiles();
    const programs = files.filter((file) => WHOLE_PROGRAMS.some((place) => place.test(file)));
    const together = files.filter((file) => !programs.includes(file));
    const codes = [await mocha(['--parallel', '--jobs', String(JOBS), ...together], settings)];
    const [agent, built] = (await building) ?? [];
    await dashboard;
    const withBuilds = {
      ...settings,
      ...(agent === undefined ? {} : { [BUILT_AGENT_VARIABLE]: agent.folder }),
      ...(built === undefined ? {} : { [BUILT_PROGRAMS_VARIABLE]: built.folder }),
    };
    codes.push(await mocha(['--parallel', '--jobs', String(JOBS), ...programs], withBuilds));
    process.exitCode = codes.every((code) => code === 0) ? 0 : 1;
    if (existsSync(times)) process.stdout.write(`${slowestFiles(times, ROOT, SLOWEST).join('\n')}\n`);
  }
} finally {
  await building?.catch(() => {});
  await postgres.stop();
}
