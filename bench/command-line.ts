import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { buildPrograms } from '../test/support/built-programs.ts';
import { signInAtCli } from '../test/support/cli-user.ts';
import { buildDevice, buildTenant } from '../test/support/factories.ts';
import { environmentOf } from '../test/support/run-muster.ts';
import { createTestApp } from '../test/support/test-app.ts';
import { stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:command-line` measures how long commands of `muster` take from their start to their end, as a process of
 * its own that was built as `npm run build` does, and from its TypeScript. The baseline is `node -e 0`, in the same run
 * and in turn with them. The time of the processor says more than that of the clock where others use it as well.
 */

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15);
const ROOT = path.join(import.meta.dirname, '..');
/** No command may take longer on a machine that is otherwise idle. */
const TARGET_MS = 400;
/** Each process says at its end how much of the processor it has used. */
const SAY_CPU = `data:text/javascript,process.on('exit',()=>{const{user,system}=process.cpuUsage();console.error('cpu='+(user+system))})`;

const run = promisify(execFile);
const app = await createTestApp();
const { orgId, admin } = await buildTenant(app);
for (let at = 0; at < 100; at++) await buildDevice(app, orgId, { hostname: `bench-${at}` });
const scopes = ['devices:read', 'filters:read', 'scripts:read'];
const user = await signInAtCli(app, admin, scopes);
const home = await mkdtemp(path.join(tmpdir(), 'muster-bench-'));
const env = { PATH: process.env['PATH'] ?? '', ...environmentOf(app.database, home), ...user.env };
const built = await buildPrograms();

const BUILT = path.join(built.folder, 'dist/src/cli/muster.js');
const SOURCE = [path.join(ROOT, 'src/run.mjs'), path.join(ROOT, 'src/cli/muster.ts')];
const COMMANDS = [
  ['--help'],
  ['--version'],
  ['devices', 'list'],
  ['devices', 'tag', 'bench-1', '--add', 'x', '--dry-run'],
  ['search', 'bench'],
  ['scripts', 'list'],
  ['jobs', 'watch', '--once'],
  ['profiles'],
  ['terminal', '--help'],
  ['admin', 'list'],
  ['completion', 'bash'],
];

const cases = [
  { name: 'node -e 0', words: ['-e', '0'] },
  ...COMMANDS.map((words) => ({ name: `muster ${words.join(' ')}`, words: [BUILT, ...words] })),
  ...[['--help'], ['devices', 'list']].map((words) => ({
    name: `from TypeScript: muster ${words.join(' ')}`,
    words: [...SOURCE, ...words],
  })),
];
const times = new Map<string, number[]>(cases.map(({ name }) => [name, []]));
const cpus = new Map<string, number[]>(cases.map(({ name }) => [name, []]));

try {
  for (let round = 0; round < ROUNDS; round++) {
    for (const { name, words } of cases) {
      const begun = performance.now();
      const { stderr } = await run(process.execPath, ['--import', SAY_CPU, ...words], { env });
      times.get(name)?.push(performance.now() - begun);
      cpus.get(name)?.push(Number(/cpu=(\d+)\n$/.exec(stderr)?.[1]) / 1000);
    }
  }
  const medianOf = (name: string, of = times) => {
    const sorted = [...(of.get(name) ?? [])].sort((one, other) => one - other);
    return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  };
  const bare = medianOf('node -e 0');
  const bareCpu = medianOf('node -e 0', cpus);
  for (const { name } of cases) {
    const median = medianOf(name);
    const most = Math.max(...(times.get(name) ?? []));
    const cpu = medianOf(name, cpus);
    const verdict = median > TARGET_MS ? `  over ${TARGET_MS} ms` : '';
    console.log(
      `${name.padEnd(62)} ${median.toFixed(0).padStart(5)} ms  longest ${most.toFixed(0).padStart(5)} ms  ratio ${(median / bare).toFixed(1).padStart(4)}  processor ${cpu.toFixed(0).padStart(4)} ms  ratio ${(cpu / bareCpu).toFixed(1).padStart(4)}${verdict}`,
    );
  }
} finally {
  await built.remove();
  await user.leave();
  await app.close();
  await rm(home, { recursive: true, force: true });
  await stopTestPostgres();
}
