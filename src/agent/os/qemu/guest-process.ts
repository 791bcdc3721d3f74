import { type ChildProcess, spawn } from 'node:child_process';
import { copyFile, open, readFile, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { ownScope, endLeftover, isRunning, type KnownProcess, processMark } from '../process-group.ts';
import { type Accelerator, GUEST_FILES, guestArguments, type GuestDefinition } from './guest-definition.ts';
import { findFirmware, type QemuPrograms } from './disk-images.ts';
import { QmpClient, QmpLost, type QmpOptions } from './qmp-client.ts';

/**
 * The process of a machine. It is detached and outlives the agent; a later agent finds it by the pid file that qemu
 * writes, and by the id on its command line.
 */

const START_MS = 30_000;
const POLL_MS = 50;
const ERRORS_MAX = 2000;

export class GuestFailure extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'GuestFailure';
  }
}

/** The running process of a machine, started by this agent or an earlier one. */
export async function findGuest({
  id,
  folder,
}: Pick<GuestDefinition, 'id' | 'folder'>): Promise<KnownProcess | undefined> {
  const text = await readFile(path.join(folder, GUEST_FILES.process), 'utf8').catch(() => '');
  const pid = Number(/^\d{1,10}\s*$/.test(text) ? text : Number.NaN);
  if (!Number.isSafeInteger(pid) || pid <= 1) return undefined;
  const mark = await processMark(pid);
  const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
  return mark !== '' && words.includes(`muster-${id}`) ? { pid, mark } : undefined;
}

/** Starts a machine that does not run. Rejects with `GuestFailure` if qemu does not accept it. */
export async function startGuest(
  guest: GuestDefinition,
  { qemu, accelerator }: { qemu: QemuPrograms; accelerator: Accelerator },
): Promise<KnownProcess> {
  const { folder } = guest;
  if (guest.bootMode === 'uefi') await provideFirmware(folder);
  await rm(path.join(folder, GUEST_FILES.monitor), { force: true });
  const [command = qemu.system, ...words] = [
    ...(await ownScope(`muster-machine-${guest.id}`)),
    qemu.system,
    ...guestArguments(guest, accelerator),
  ];
  const errors = await open(path.join(folder, GUEST_FILES.errors), 'w', 0o600);
  let child: ChildProcess;
  try {
    child = spawn(command, words, {
      cwd: folder,
      stdio: ['ignore', 'ignore', errors.fd],
      detached: true,
      env: { PATH: process.env['PATH'], LC_ALL: 'C' },
    });
  } finally {
    await errors.close();
  }
  child.unref();
  const hasFailed = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code) => resolve(`qemu ended with ${code ?? 'a signal'}`));
  });
  const started = await Promise.race([untilItAnswers(guest), hasFailed]);
  if (typeof started !== 'string') return started;
  if (child.pid !== undefined && child.exitCode === null) {
    await endLeftover({ pid: child.pid, mark: await processMark(child.pid) });
  }
  const text = await readFile(path.join(folder, GUEST_FILES.errors), 'utf8').catch(() => '');
  throw new GuestFailure(`The machine does not start: ${(text.trim() || started).slice(0, ERRORS_MAX)}`);
}

/** The process, or the reason why there is none. */
async function untilItAnswers(guest: GuestDefinition): Promise<KnownProcess | string> {
  const until = clock.monotonic() + START_MS;
  while (clock.monotonic() < until) {
    const running = await findGuest(guest);
    if (running !== undefined && (await answers(guest))) return running;
    await clock.sleep(POLL_MS);
  }
  return `qemu has not answered for ${START_MS / 1000} s`;
}

async function answers(guest: Pick<GuestDefinition, 'folder'>): Promise<boolean> {
  try {
    await withMonitor(guest, async (monitor) => monitor.execute('query-status'));
    return true;
  } catch {
    return false;
  }
}

/**
 * Gives the work a connection to the monitor, which serves one client at a time. Rejects with `QmpLost` if there is no
 * connection, and with `QmpRefusal` if qemu refuses a command.
 */
export async function withMonitor<T>(
  { folder }: Pick<GuestDefinition, 'folder'>,
  work: (monitor: QmpClient) => Promise<T>,
  options: QmpOptions = {},
): Promise<T> {
  // The path of a socket may have 107 characters, and that of the folder can be longer.
  const handle = await open(folder, 'r').catch((error: unknown) => {
    throw new QmpLost(`The folder of the machine cannot be opened: ${String(error)}`);
  });
  try {
    const monitor = await QmpClient.connect(`/proc/self/fd/${handle.fd}/${GUEST_FILES.monitor}`, options);
    try {
      return await work(monitor);
    } finally {
      monitor.close();
    }
  } finally {
    await handle.close();
  }
}

/** How to end a guest: by its power button, by quitting qemu once its writes are on disk, or immediately. */
export type GuestEnd = 'shutdown' | 'quit' | 'kill';

const END_MS: Readonly<Record<GuestEnd, number>> = { shutdown: 120_000, quit: 20_000, kill: 0 };

/**
 * Returns whether the machine has ended: a guest may ignore its power button.
 * @param signal  ends the wait, not the machine
 */
export async function endGuest(
  guest: Pick<GuestDefinition, 'id' | 'folder'>,
  how: GuestEnd,
  signal?: AbortSignal,
): Promise<boolean> {
  const running = await findGuest(guest);
  if (running === undefined) return true;
  if (how !== 'kill') {
    const command = how === 'quit' ? 'quit' : 'system_powerdown';
    await withMonitor(guest, async (monitor) => monitor.execute(command)).catch(() => {});
    const until = clock.monotonic() + END_MS[how];
    while (clock.monotonic() < until && (await isRunning(running))) {
      if (signal?.aborted === true) break;
      await clock.sleep(POLL_MS);
    }
    if (how === 'shutdown') return !(await isRunning(running));
  }
  return endLeftover(running);
}

/** The current firmware, with a variable store of this machine, which it keeps. */
async function provideFirmware(folder: string): Promise<void> {
  const firmware = await findFirmware();
  if (firmware === undefined) {
    throw new GuestFailure(
      'This machine starts by UEFI, whose firmware (OVMF) is not installed on the host.',
    );
  }
  const code = path.join(folder, GUEST_FILES.firmwareCode);
  const variables = path.join(folder, GUEST_FILES.firmwareVariables);
  // Code and variables must match, so a machine keeps those of its first start.
  const isThere = await stat(variables).catch(() => undefined);
  if (isThere !== undefined) return;
  await copyFile(firmware.code, code);
  const draft = `${variables}.draft`;
  await copyFile(firmware.variables, draft);
  await rename(draft, variables);
}

/** The run state of a machine. */

/**
 * `stopped`: it has no process. `faulty`: its disk fails or is full, and it is paused. `unknown`: its monitor does not
 * respond.
 */
type GuestState = 'running' | 'paused' | 'faulty' | 'stopped' | 'unknown';

const Status = z.object({ status: z.string(), running: z.boolean() });

export async function guestState(guest: GuestDefinition): Promise<GuestState> {
  if ((await findGuest(guest)) === undefined) return 'stopped';
  try {
    return await withMonitor(guest, stateOf, { connectMs: 5000, commandMs: 5000 });
  } catch {
    return (await findGuest(guest)) === undefined ? 'stopped' : 'unknown';
  }
}

export async function stateOf(monitor: QmpClient): Promise<Exclude<GuestState, 'stopped' | 'unknown'>> {
  const { status, running } = await monitor.ask('query-status', Status);
  if (running) return 'running';
  return status === 'io-error' || status === 'internal-error' || status === 'guest-panicked'
    ? 'faulty'
    : 'paused';
}
