import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { findByCommand } from '../processes/find-by-command.ts';
import { endLeftover } from '../processes/leftover-process.ts';
import { processMark } from '../processes/process-mark.ts';
import { type NbdDisk, openNbd } from './nbd-client.ts';

/** Reads the content of a disk image of any format, by `qemu-nbd`. */

const START_MS = 20_000;
const POLL_MS = 20;
const STDERR_MAX = 1000;

/** Before the number of the process that reads. */
const PREFIX = 'muster-disk-';

export interface ServedImage {
  file: string;
  format: 'raw' | 'qcow2';
}

/**
 * `force-share`: the machine whose image it is can be started and can write meanwhile. Whether it did is the caller's to
 * find out. The program ends itself when its only reader has gone.
 */
export async function openImage(
  program: string,
  { file, format }: ServedImage,
  signal: AbortSignal,
): Promise<NbdDisk> {
  // The path of a socket has at most 107 characters, so it does not lie in a folder of the agent.
  const folder = await mkdtemp(path.join(tmpdir(), `${PREFIX}${process.pid}-`));
  const socket = path.join(folder, 'nbd');
  const node = { driver: format, 'force-share': true, file: { driver: 'file', filename: file } };
  const child = spawn(
    program,
    ['--read-only', '--shared=1', `--socket=${socket}`, `json:${JSON.stringify(node)}`],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    },
  );
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (errors.length < STDERR_MAX) errors += text.slice(0, STDERR_MAX);
  });
  const state = { hasEnded: false };
  const ended = new Promise<void>((resolve) => {
    const end = () => {
      state.hasEnded = true;
      resolve();
    };
    child.once('error', (error) => {
      errors += error.message;
      end();
    });
    child.once('close', end);
  });
  const stop = async () => {
    if (!state.hasEnded) child.kill('SIGTERM');
    await Promise.race([ended, clock.sleep(2000, { unref: true })]);
    if (!state.hasEnded) child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const disk = await untilServed(socket, state, signal);
    return {
      ...disk,
      close() {
        disk.close();
        void stop();
      },
    };
  } catch (error) {
    await stop();
    signal.throwIfAborted();
    const why = errors.trim().split('\n').at(-1) ?? '';
    throw new Error(`The disk image cannot be read: ${why === '' ? String(error) : why}`, { cause: error });
  }
}

async function untilServed(
  socket: string,
  state: { hasEnded: boolean },
  signal: AbortSignal,
): Promise<NbdDisk> {
  const until = clock.monotonic() + START_MS;
  for (;;) {
    try {
      return await openNbd(socket, signal);
    } catch (error) {
      if (state.hasEnded || clock.monotonic() > until) throw error;
      signal.throwIfAborted();
      await clock.sleep(POLL_MS);
    }
  }
}

/** Ends what a process has left that was killed before it read anything: those programs would wait for it for ever. */
export async function clearImages(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = /^muster-disk-(\d{1,10})-[A-Za-z0-9]{6}$/.exec(name)?.[1];
    if (pid === undefined || (await processMark(Number(pid))) !== '') continue;
    const folder = path.join(tmpdir(), name);
    const socket = `--socket=${path.join(folder, 'nbd')}`;
    for (const left of await findByCommand((words) => words.includes(socket))) await endLeftover(left);
    await rm(folder, { recursive: true, force: true });
  }
}
