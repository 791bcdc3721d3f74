import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { eventually } from './eventually.ts';
import { lastingPort } from './lasting-port.ts';

/** A real Redis of the test's own, which keeps nothing and can go away and come back under one address. */
export interface TestRedis {
  url: string;
  /** Of the program that runs now. */
  readonly pid: number;
  /** Ends the program at once, as a crash would. */
  kill(): Promise<void>;
  /** Starts it again on the same port, empty or with what the last snapshot holds; nothing where it runs. */
  start(from?: 'empty' | 'snapshot'): Promise<void>;
  /** Writes down what it holds now. */
  takeSnapshot(): Promise<void>;
  /** Holds it still: connections stay open, and nothing is answered. */
  freeze(): void;
  thaw(): void;
  /** Speaks to it as anybody could, past the server under test. */
  ask(...words: string[]): Promise<string>;
  /** Ends it for good. */
  remove(): Promise<void>;
}

/** Rejects with ENOENT where the program is not installed. */
export async function startRedis(): Promise<TestRedis> {
  const dir = await mkdtemp(path.join(tmpdir(), 'muster-redis-'));
  const port = await lastingPort();
  let child: ChildProcess | undefined;
  const killOnExit = () => child?.kill('SIGKILL');

  const redis: TestRedis = {
    url: `redis://127.0.0.1:${port}`,
    get pid() {
      return child?.pid ?? 0;
    },
    async start(from = 'empty') {
      if (child !== undefined) return;
      // Redis reads the file by itself when it starts.
      if (from === 'empty') await rm(path.join(dir, 'dump.rdb'), { force: true });
      const started = await runRedis([...SETTINGS, '--port', String(port), '--dir', dir]);
      child = started;
      await answering(port, started);
    },
    async kill() {
      const ending = child;
      child = undefined;
      await killRedis(ending);
    },
    async takeSnapshot() {
      const answer = await askRedis(port, ['SAVE']);
      if (!answer.startsWith('+OK')) throw new Error(`Redis took no snapshot: ${answer}`);
    },
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    ask: (...words) => askRedis(port, words),
    async remove() {
      process.off('exit', killOnExit);
      await redis.kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
  process.once('exit', killOnExit);
  try {
    await redis.start();
  } catch (error) {
    await redis.remove();
    throw error;
  }
  return redis;
}

/**
 * For `before(async function () { redis = await redisOrSkip(this); })`: where the program is not installed the tests
 * are skipped, and shown as such; in continuous integration they fail instead.
 */
export const redisOrSkip = (hook: Mocha.Context): Promise<TestRedis> => startedOrSkip(hook, startRedis);

export async function startedOrSkip<T>(hook: Mocha.Context, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (!isMissing(error) || process.env['CI'] === 'true') throw error;
    // Throws what Mocha takes for a skip.
    return hook.skip();
  }
}

const isMissing = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'ENOENT';

/** On loopback only, and keeps nothing. */
export const SETTINGS = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];

/** Rejects with ENOENT where there is no such program. */
export async function runRedis(args: readonly string[]): Promise<ChildProcess> {
  const child = spawn('redis-server', args, { stdio: 'ignore' });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  return child;
}

/** Waits until a server that was started answers. */
export async function answering(port: number, server: ChildProcess): Promise<void> {
  await eventually(
    () => askRedis(port, ['PING']).catch((error: unknown) => String(error)),
    (answer) => {
      if (server.exitCode !== null) throw new Error(`redis-server ended with code ${server.exitCode}`);
      return answer.startsWith('+PONG');
    },
  );
}

/** Ends it at once, as a crash would. */
export async function killRedis(server: ChildProcess | undefined): Promise<void> {
  if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
  const ended = new Promise((resolve) => server.once('exit', resolve));
  server.kill('SIGKILL');
  await ended;
}

/** The raw answer; long enough for what a test looks for, which comes in one piece from loopback. */
export async function askRedis(port: number, words: readonly string[]): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.setTimeout(2000, () => socket.destroy(new Error('Redis does not answer')));
  try {
    return await new Promise<string>((resolve, reject) => {
      socket.once('error', reject);
      socket.once('data', (answer) => resolve(answer.toString('utf8')));
      socket.write(`${words.join(' ')}\r\n`);
    });
  } finally {
    socket.destroy();
  }
}
