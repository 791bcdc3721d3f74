import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { type Cost, cpuOf } from './processor-time.ts';

/** restic as it is, with a repository of its own, for comparison. */
export interface Baseline {
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

export const inFolder = (folder: string): Promise<Baseline> =>
  baselineAt({ name: 'restic and a folder', repository: path.join(folder, 'repository'), folder }, undefined);

/** Another server with restic's REST protocol: what that costs by itself. `undefined` where rclone is not installed. */
export async function overRclone(folder: string): Promise<Baseline | undefined> {
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
