import { randomBytes } from 'node:crypto';
import { link, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { hasCode, readPrivateJson, replaceFile } from './private-file.ts';
import { isRunning, type KnownProcess, processMark } from '../processes/process-mark.ts';

/**
 * A lock in a private folder that one process holds, and that ends with the process, however that ends. Node has no
 * locks of the system, so it is a row of numbered files, each with the process that made it: the newest one counts.
 *
 * Whoever finds the newest holder dead makes the file with the next number, which only one can do, and then looks
 * whether that is still the newest. The newest file is never removed, not even when the lock is given back: a number
 * that came again could be made by somebody who has looked long ago.
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

/** Throws `LockHeldError` where another process, or this one, holds it. */
export async function takeLock(folder: string, name: string): Promise<FolderLock> {
  const self: KnownProcess = { pid: process.pid, mark: await processMark(process.pid) };
  const fileOf = (number: number) => path.join(folder, `${name}.lock.${number}`);
  for (let tries = 0; tries < TRIES; tries++) {
    const newest = (await numbersIn(folder, name)).at(-1) ?? 0;
    const holder = newest === 0 ? undefined : Holder.safeParse(await contentOf(fileOf(newest))).data;
    if (holder !== undefined && (await isRunning(holder))) throw new LockHeldError(name, holder);
    const own = newest + 1;
    if (!(await placed(fileOf(own), self))) continue;
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
  throw new Error(`The lock "${name}" in ${folder} could not be taken: too many processes want it.`);
}

const WAIT_MS = 5000;
const LOOK_MS = 20;

/** For a moment's work: waits while another process holds the lock. */
export async function withLock<T>(folder: string, name: string, work: () => Promise<T>): Promise<T> {
  const until = performance.now() + WAIT_MS;
  for (;;) {
    let lock: FolderLock;
    try {
      lock = await takeLock(folder, name);
    } catch (error) {
      if (!(error instanceof LockHeldError) || performance.now() > until) throw error;
      await delay(LOOK_MS);
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

/** The file appears with its content or not at all. `false` where there is one already. */
async function placed(file: string, holder: KnownProcess): Promise<boolean> {
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

/** What cannot be read is nobody's. */
async function contentOf(file: string): Promise<unknown> {
  return readPrivateJson(file).catch(() => undefined);
}
