import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { startWorld } from '../test/backup-proof/support/world.ts';

/**
 * Backups and restores through Muster, by the server and the agent as programs, against stock restic and a folder, in
 * the same run: `BENCH_MB` (default 1000) in `BENCH_FILES` (default 4000) files, then with 1 % changed. The times of
 * Muster are those from the request to the end of the job. `BENCH_MB=5000 BENCH_FILES=20000` is the large form.
 */

const MB = Number(process.env['BENCH_MB'] ?? 1000);
const FILES = Number(process.env['BENCH_FILES'] ?? 4000);
const IN_FOLDER = 100;
const TICKS_PER_SECOND = 100;

/** Each half of a file can be compressed, as usual data can. */
async function writeFileOf(folder: string, n: number, seed: string): Promise<void> {
  const size = Math.round((MB * 1e6) / FILES);
  const within = path.join(folder, String(Math.floor(n / IN_FOLDER)));
  await mkdir(within, { recursive: true });
  const text = Buffer.alloc(Math.floor(size / 2), createHash('sha256').update(`${seed} ${n}`).digest('hex'));
  await writeFile(path.join(within, String(n)), Buffer.concat([randomBytes(size - text.length), text]));
}

interface Cost {
  seconds: number;
  cpuSeconds: number;
}

/** Processor time of a process and of those of its children that have ended, as the system counts it. */
async function cpuOf(pid: number | undefined): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0) / TICKS_PER_SECOND;
}

function stock(args: string[], env: Record<string, string>): Cost {
  const startedAt = performance.now();
  // The shell reports what its children took.
  const text = spawnSync('bash', ['-c', 'restic "$@" >/dev/null; times', 'restic', ...args], {
    env: { PATH: process.env['PATH'], ...env },
    encoding: 'utf8',
  }).stdout;
  const seconds = (performance.now() - startedAt) / 1000;
  const times = [...text.matchAll(/(\d+)m([\d.]+)s/g)].map(([, m, s]) => Number(m) * 60 + Number(s));
  return { seconds, cpuSeconds: times.reduce((sum, each) => sum + each, 0) };
}

const folder = await mkdtemp(path.join(tmpdir(), 'muster-bench-'));
const world = await startWorld({ postgres: 'embedded' });
const lines: string[] = [];
let mostKiB = 0;
try {
  const device = await world.addDevice();
  await device.start();
  for (let n = 0; n < FILES; n++) await writeFileOf(device.source, n, 'first');

  const measured = async (work: () => Promise<unknown>): Promise<Cost> => {
    const pids = [world.server().child.pid, device.agentPid()];
    const cpu = async () => (await Promise.all(pids.map(cpuOf))).reduce((sum, each) => sum + each, 0);
    const watch = setInterval(() => {
      void readFile(`/proc/${pids[0]}/status`, 'utf8').then((text) => {
        mostKiB = Math.max(mostKiB, Number(/VmRSS:\s+(\d+)/.exec(text)?.[1] ?? 0));
      });
    }, 200);
    const [before, startedAt] = [await cpu(), performance.now()];
    await work();
    clearInterval(watch);
    return { seconds: (performance.now() - startedAt) / 1000, cpuSeconds: (await cpu()) - before };
  };
  const repository = path.join(folder, 'repository');
  const env = {
    RESTIC_REPOSITORY: repository,
    RESTIC_PASSWORD: 'x',
    RESTIC_CACHE_DIR: path.join(folder, 'cache'),
  };
  stock(['init'], env);
  const compare = (what: string, muster: Cost, restic: Cost) => {
    const [byClock, byCpu] = [muster.seconds / restic.seconds, muster.cpuSeconds / restic.cpuSeconds];
    lines.push(
      `${what}: Muster ${muster.seconds.toFixed(1)} s (${muster.cpuSeconds.toFixed(1)} s CPU), restic ${restic.seconds.toFixed(1)} s (${restic.cpuSeconds.toFixed(1)} s CPU): ${byClock.toFixed(2)} by clock, ${byCpu.toFixed(2)} by CPU; load ${loadavg()[0]?.toFixed(1)}`,
    );
  };
  // The files are in the memory of the system for both.
  execFileSync('sh', ['-c', 'find "$1" -type f -exec cat {} + >/dev/null', 'sh', device.source]);

  let snapshotId = '';
  const backUp = async () => {
    ({ snapshotId } = await device.backUp());
  };
  const first = await measured(backUp);
  compare(`first backup of ${MB} MB in ${FILES} files`, first, stock(['backup', device.source], env));
  for (let n = 0; n < FILES; n += 100) await writeFileOf(device.source, n, 'second');
  const second = await measured(backUp);
  compare('backup with 1 % changed', second, stock(['backup', device.source], env));
  const targetPath = path.join(world.dataDir, 'back');
  await mkdir(targetPath);
  const restored = await measured(async () => {
    const { status } = await device.restored(await device.orderRestore({ snapshotId, targetPath }));
    if (status !== 'completed') throw new Error(`the restore is ${status}`);
  });
  compare(
    'restore of everything',
    restored,
    stock(['restore', 'latest', '--target', path.join(folder, 'back')], env),
  );
  execFileSync('diff', ['-r', device.source, path.join(targetPath, device.source)]);
  lines.push(`memory of the server at most: ${Math.round(mostKiB / 1024)} MB`);
} finally {
  await world.close();
  await rm(folder, { recursive: true, force: true });
}
// oxlint-disable-next-line no-console -- the result
console.info(lines.join('\n'));
