import { randomBytes } from 'node:crypto';
import { link, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { isRunning, type KnownProcess, processMark } from '../process-group.ts';
import { hasCode, readPrivateJson, replaceFile } from './private-file.ts';

/**
 * A lock in a private folder, held by one process until it releases the lock or ends. Node has no access to the locks of
 * the system, so the lock is a series of numbered files, each with the process that created it; the newest one counts.
 *
 * A process that finds the newest holder dead creates the file with the next number, which only one process can do, and
 * then checks that it is still the newest. The newest file is never removed, not even when the lock is released: a
 * process that has read the folder long ago could otherwise create the same number again.
 */
export interface FolderLock {
  release(): Promise<void>;
}

export class LockHeldError extends Error {
  readonly holder: KnownProcess;

  constructor(name: string, holder: KnownProcess) {
    super(`Process ${holder.pid} holds the lock "${name}".`);
    this.holder = holder;
  }
}

const Holder = z.object({ pid: z.number().int().positive(), mark: z.string() });
const TRIES = 50;

/** Throws `LockHeldError` if any process holds the lock, including this one. */
export async function takeLock(folder: string, name: string): Promise<FolderLock> {
  const self: KnownProcess = { pid: process.pid, mark: await processMark(process.pid) };
  const fileOf = (number: number) => path.join(folder, `${name}.lock.${number}`);
  for (let tries = 0; tries < TRIES; tries++) {
    const newest = (await numbersIn(folder, name)).at(-1) ?? 0;
    const holder = newest === 0 ? undefined : Holder.safeParse(await contentOf(fileOf(newest))).data;
    if (holder !== undefined && (await isRunning(holder))) throw new LockHeldError(name, holder);
    const own = newest + 1;
    if (!(await created(fileOf(own), self))) continue;
    const numbers = await numbersIn(folder, name);
    if (numbers.at(-1) !== own) {
      await rm(fileOf(own), { force: true });
      continue;
    }
    for (const old of numbers.slice(0, -1)) await rm(fileOf(old), { force: true });
    return {
      async release() {
        await (await replaceFile(fileOf(own), Buffer.from('{}\n'))).close();
      },
    };
  }
  throw new Error(`The lock "${name}" in ${folder} could not be taken: too many processes compete for it.`);
}

const WAIT_MS = 5000;
const POLL_MS = 20;

/** Waits for the lock and holds it during `work`, which must be short. */
export async function withLock<T>(folder: string, name: string, work: () => Promise<T>): Promise<T> {
  const until = clock.monotonic() + WAIT_MS;
  for (;;) {
    let lock: FolderLock;
    try {
      lock = await takeLock(folder, name);
    } catch (error) {
      if (!(error instanceof LockHeldError) || clock.monotonic() > until) throw error;
      await clock.sleep(POLL_MS);
      continue;
    }
    try {
      return await work();
    } finally {
      await lock.release();
    }
  }
}

async function numbersIn(folder: string, name: string): Promise<number[]> {
  const prefix = `${name}.lock.`;
  const found = (await readdir(folder)).filter((each) => each.startsWith(prefix));
  return found
    .map((each) => each.slice(prefix.length))
    .filter((number) => /^\d{1,15}$/.test(number))
    .map(Number)
    .sort((a, b) => a - b);
}

/** Creates the file together with its content. `false` if it already exists. */
async function created(file: string, holder: KnownProcess): Promise<boolean> {
  const draft = `${file}.${randomBytes(8).toString('hex')}.draft`;
  await writeFile(draft, `${JSON.stringify(holder)}\n`, { flag: 'wx', mode: 0o600 });
  try {
    await link(draft, file);
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/** An unreadable file counts as a lock without a holder. */
async function contentOf(file: string): Promise<unknown> {
  return readPrivateJson(file).catch(() => undefined);
}
