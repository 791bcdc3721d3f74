import { createHash, randomBytes } from 'node:crypto';
import { mkdir, writeFile, readFile, rm, mkdtemp } from 'node:fs/promises';
import path from 'node:path';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { loadavg, tmpdir } from 'node:os';
import type { ProofDevice } from '../test/programs/proofs/backup/support/device.ts';
import { startWorld } from '../test/programs/proofs/backup/support/world.ts';

const IN_FOLDER = 100;

/** Writes one file of the source. Half of each can be compressed, as usual data can. */
async function writeFileOf(folder: string, n: number, size: number): Promise<void> {
  const within = path.join(folder, String(Math.floor(n / IN_FOLDER)));
  await mkdir(within, { recursive: true });
  const random = randomBytes(Math.ceil(size / 2));
  const text = Buffer.alloc(size - random.length, createHash('sha256').update(random).digest('hex'));
  await writeFile(path.join(within, String(n)), Buffer.concat([random, text]));
}

interface Cost {
  seconds: number;
  cpuSeconds: number;
}

const TICKS_PER_SECOND = 100;

/** Processor time of a process and of those of its children that have ended, as the system counts it. */
async function cpuOf(pid: number | undefined): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0) / TICKS_PER_SECOND;
}

/** restic as it is, with a repository of its own, for comparison. */
interface Baseline {
  name: string;
  /** One command to its end, by the clock and by the processor time of restic and of the server that it talks to. */
  run(...args: string[]): Promise<Cost>;
  close(): Promise<void>;
}

/** The programs through which the agent starts restic: other work on the machine takes as much from one as from another. */
const AS_THE_AGENT = ['nice', '-n', '10', 'ionice', '-t', '-c', '2', '-n', '7'];
const LOWERED = process.env['BENCH_USUAL_PRIORITY'] === undefined ? AS_THE_AGENT : [];

async function baselineAt(
  { name, repository, folder }: { name: string; repository: string; folder: string },
  server: ChildProcess | undefined,
): Promise<Baseline> {
  const env = {
    PATH: process.env['PATH'],
    RESTIC_REPOSITORY: repository,
    RESTIC_PASSWORD: 'x',
    RESTIC_CACHE_DIR: path.join(folder, 'cache'),
  };
  const ofServer = async () => (server === undefined ? 0 : cpuOf(server.pid));
  const run = async (...args: string[]): Promise<Cost> => {
    const before = await ofServer();
    const startedAt = performance.now();
    // The shell reports what its children took.
    const { stdout, stderr } = spawnSync(
      'bash',
      ['-c', '"$@" >/dev/null || exit 1; times', 'bash', ...LOWERED, 'restic', ...args],
      { env, encoding: 'utf8' },
    );
    const seconds = (performance.now() - startedAt) / 1000;
    const times = [...stdout.matchAll(/(\d+)m([\d.]+)s/g)].map(([, m, s]) => Number(m) * 60 + Number(s));
    if (times.length === 0) throw new Error(`restic ${args[0]}: ${stderr}`);
    const ofRestic = times.reduce((sum, each) => sum + each, 0);
    return { seconds, cpuSeconds: ofRestic + (await ofServer()) - before };
  };
  await run('init');
  return {
    name,
    run,
    async close() {
      if (server !== undefined && server.exitCode === null) {
        const ended = once(server, 'exit');
        server.kill('SIGKILL');
        await ended;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const inFolder = (folder: string): Promise<Baseline> =>
  baselineAt({ name: 'restic and a folder', repository: path.join(folder, 'repository'), folder }, undefined);

/** Another server with restic's REST protocol: what that costs by itself. `undefined` where rclone is not installed. */
async function overRclone(folder: string): Promise<Baseline | undefined> {
  try {
    execFileSync('rclone', ['version'], { stdio: 'ignore' });
  } catch {
    return undefined;
  }
  const address = `127.0.0.1:${await freePort()}`;
  const server = spawn(
    'rclone',
    ['serve', 'restic', '--append-only', '--addr', address, path.join(folder, 'repository')],
    { stdio: 'ignore', env: { PATH: process.env['PATH'], HOME: folder } },
  );
  const url = `http://${address}/`;
  const isUp = () =>
    fetch(url).then(
      () => true,
      () => false,
    );
  while (!(await isUp())) {
    await delay(50);
  }
  return baselineAt({ name: 'restic and rclone', repository: `rest:${url}`, folder }, server);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/**
 * Backups and restores through Muster, by the server and the agent as programs, against stock restic with a folder, and
 * against stock restic with `rclone serve restic` where rclone is installed: in turns, in the same run. `BENCH_MB` (1000)
 * in `BENCH_FILES` (4000) files, then with 1 % changed, then a restore of everything, in `BENCH_ROUNDS` (1) rounds with a
 * device and repositories of their own. The times of Muster are those from the request to the end of the job.
 * `BENCH_MB=5000 BENCH_FILES=20000` is the large form. Stock restic runs with the low priority that the agent gives its
 * own, unless `BENCH_USUAL_PRIORITY` is set. Only a multiple of three rounds is fair, because the first, second and third
 * turn of a step cost different times.
 */

const MB = Number(process.env['BENCH_MB'] ?? 1000);
const FILES = Number(process.env['BENCH_FILES'] ?? 4000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 1);
const SIZE = Math.round((MB * 1e6) / FILES);
const EVERY_HUNDREDTH = 100;
/** Seldom: answering is work of the server, which is not to be measured. */
const ASK_EVERY_MS = 500;

type Step = 'first backup' | '1 % changed' | 'restore';
type Who = string;

const MUSTER: Who = 'Muster';
const results: { step: Step; who: Who; cost: Cost; load: number }[] = [];
const memory = { mostKiB: 0 };

const folder = await mkdtemp(path.join(tmpdir(), 'muster-bench-'));
const world = await startWorld({ postgres: 'embedded' });
try {
  for (let round = 0; round < ROUNDS; round++) await measureRound(round);
} finally {
  await world.close();
  await rm(folder, { recursive: true, force: true });
}
report();

async function measureRound(round: number): Promise<void> {
  const within = path.join(folder, String(round));
  const device = await world.addDevice();
  await device.start();
  const baselines = [
    await inFolder(path.join(within, 'folder')),
    await overRclone(path.join(within, 'rclone')),
  ].filter((each) => each !== undefined);
  try {
    for (let n = 0; n < FILES; n++) await writeFileOf(device.source, n, SIZE);
    // The files are in the memory of the system for all.
    execFileSync('sh', ['-c', 'find "$1" -type f -exec cat {} + >/dev/null', 'sh', device.source]);
    let snapshotId = '';
    const backUp = async () => {
      const id = await device.order();
      const job = await ended(
        () => device.job(id),
        ({ finishedAt }) => finishedAt,
      );
      if (job.status !== 'completed') throw new Error(`the backup is ${job.status}`);
      ({ snapshotId } = job);
      return job.finishedAt;
    };
    const stockBackup = (baseline: Baseline) => baseline.run('backup', device.source);
    await inTurns(round, 'first backup', device, backUp, baselines, stockBackup);

    for (let n = 0; n < FILES; n += EVERY_HUNDREDTH) await writeFileOf(device.source, n, SIZE);
    await inTurns(round, '1 % changed', device, backUp, baselines, stockBackup);

    const targetPath = path.join(world.dataDir, `back-${round}`);
    await mkdir(targetPath);
    const restore = async () => {
      const id = await device.orderRestore({ snapshotId, targetPath });
      const done = await ended(
        () => device.restore(id),
        ({ completedAt }) => completedAt,
      );
      if (done.status !== 'completed') throw new Error(`the restore is ${done.status}`);
      return done.completedAt;
    };
    await inTurns(round, 'restore', device, restore, baselines, async (baseline) => {
      const target = path.join(within, 'back');
      const cost = await baseline.run('restore', 'latest', '--target', target);
      await rm(target, { recursive: true });
      return cost;
    });
    execFileSync('diff', ['-r', device.source, path.join(targetPath, device.source)]);
    await rm(targetPath, { recursive: true });
  } finally {
    for (const baseline of baselines) await baseline.close();
    await device.close();
    await rm(device.source, { recursive: true });
  }
}

/** The order moves on by one with each round, so that in three rounds Muster and both baselines each have the first turn. */
async function inTurns(
  round: number,
  step: Step,
  device: ProofDevice,
  work: () => Promise<string>,
  baselines: readonly Baseline[],
  stock: (baseline: Baseline) => Promise<Cost>,
): Promise<void> {
  const turns = [
    { who: MUSTER, measure: () => measured(device, work) },
    ...baselines.map((baseline) => ({ who: baseline.name, measure: () => stock(baseline) })),
  ];
  turns.unshift(...turns.splice(round % turns.length));
  for (const { who, measure } of turns) {
    // What one has written is not left for the next one to wait for.
    execFileSync('sync');
    results.push({ step, who, cost: await measure(), load: loadavg()[0] ?? 0 });
  }
}

/** @param work  answers when it ended, by the clock of this machine */
async function measured(device: ProofDevice, work: () => Promise<string>): Promise<Cost> {
  const pids = [world.server().child.pid, device.agentPid()];
  const cpu = async () => (await Promise.all(pids.map(cpuOf))).reduce((sum, each) => sum + each, 0);
  const watch = setInterval(() => {
    void readFile(`/proc/${pids[0]}/status`, 'utf8').then((text) => {
      memory.mostKiB = Math.max(memory.mostKiB, Number(/VmRSS:\s+(\d+)/.exec(text)?.[1] ?? 0));
    });
  }, 200);
  try {
    const [before, startedAt] = [await cpu(), Date.now()];
    const endedAt = await work();
    return { seconds: (Date.parse(endedAt) - startedAt) / 1000, cpuSeconds: (await cpu()) - before };
  } finally {
    clearInterval(watch);
  }
}

async function ended<T>(read: () => Promise<T>, endOf: (value: T) => string | null): Promise<T> {
  for (;;) {
    const value = await read();
    if (endOf(value) !== null) return value;
    await delay(ASK_EVERY_MS);
  }
}

function report(): void {
  const rows = (['first backup', '1 % changed', 'restore'] as const).flatMap((step) => {
    const of = (who: Who) => results.filter((each) => each.step === step && each.who === who);
    const ours = of(MUSTER);
    return [...new Set(results.map(({ who }) => who))].map((who) => {
      const theirs = of(who);
      const ratio = (what: keyof Cost) =>
        geometricMean(ours.map(({ cost }, at) => cost[what] / (theirs[at]?.cost[what] ?? NaN))).toFixed(2);
      return {
        step,
        who,
        seconds: median(theirs.map(({ cost }) => cost.seconds)).toFixed(2),
        'processor seconds': median(theirs.map(({ cost }) => cost.cpuSeconds)).toFixed(2),
        'Muster to this by clock': who === MUSTER ? '' : ratio('seconds'),
        'by processor': who === MUSTER ? '' : ratio('cpuSeconds'),
        load: median(theirs.map(({ load }) => load)).toFixed(1),
      };
    });
  });
  console.table(rows);
  console.log(
    JSON.stringify({
      megabytes: MB,
      files: FILES,
      rounds: ROUNDS,
      serverMemoryMb: Math.round(memory.mostKiB / 1024),
    }),
  );
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

/** Of ratios: what one round has doubled and another has halved is 1. */
function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}
