import { spawn } from 'node:child_process';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { readFrom } from '../../../os/partitions/read-at.ts';
import { readDisk } from '../../../os/partitions/read-disk.ts';
import { ownScope } from '../../../os/processes/own-scope.ts';
import type { RunSystemProgram } from '../../../os/processes/system-program.ts';

/** A small volume in use, copied while nothing is written to it. */

/** Enough for a gigabyte on a slow disk. Nobody may wait longer for a file system. */
const FROZEN_MS = 20_000;
const TRIES = 3;
const ZEROS = Buffer.alloc(1024 * 1024);

export interface VolumeInUse {
  /** The device: `/dev/sda1`. */
  path: string;
  mountPoint: string;
  sizeBytes: number;
}

/**
 * Copies the volume into a new file, with its file system frozen where it can be, and otherwise between two moments at
 * which nothing was written in between. Returns whether it stood still.
 * @param hasAgent  something of the agent lies on it: it is never frozen, because the agent could not thaw it then
 */
export async function copyStill(
  volume: VolumeInUse & { hasAgent: boolean },
  file: string,
  { run, signal }: { run: RunSystemProgram; signal: AbortSignal },
): Promise<boolean> {
  const copy = () => copyVolume(volume, file, signal);
  // What was read of the device before is kept by the kernel, and is not what its file system has written since.
  const forget = () => run('blockdev', ['--flushbufs', volume.path]);
  if (!volume.hasAgent) {
    const work = () => forget().then(copy);
    const frozen = await whileFrozen(volume.mountPoint, run, work).catch(() => 'unsupported' as const);
    signal.throwIfAborted();
    if (frozen !== 'unsupported') return frozen;
  }
  for (let round = 0; round < TRIES; round += 1) {
    await run('sync', ['--file-system', volume.mountPoint]);
    // Before the count: it has the file system write.
    await forget();
    const before = await writesTo(volume.path);
    await copy();
    if (before !== undefined && before === (await writesTo(volume.path))) return true;
  }
  return false;
}

/**
 * Runs work while a file system is frozen. Another process thaws it after a while, whatever becomes of this one.
 * Returns whether it was frozen until the end of the work; throws where it cannot be frozen.
 */
export async function whileFrozen(
  mountPoint: string,
  run: RunSystemProgram,
  work: () => Promise<void>,
  frozenMs = FROZEN_MS,
): Promise<boolean> {
  const watchdog = await startWatchdog(mountPoint, frozenMs);
  try {
    await run('fsfreeze', ['--freeze', mountPoint]);
    await work();
  } finally {
    await run('fsfreeze', ['--unfreeze', mountPoint]).then(
      () => (watchdog.isNeeded = false),
      // Thawed by the watchdog, or never frozen.
      () => {},
    );
    watchdog.end();
  }
  return !watchdog.isNeeded;
}

/** Lives in a session of its own, so that it outlives the agent. It has no work where the file system is thawed. */
async function startWatchdog(mountPoint: string, frozenMs: number) {
  const script = 'sleep "$1"; exec fsfreeze --unfreeze "$2"';
  const shell = ['sh', '-c', script, 'sh', String(frozenMs / 1000), mountPoint];
  const [program = 'sh', ...words] = [...(await ownScope('muster-thaw')), ...shell];
  const child = spawn(program, words, { detached: true, stdio: 'ignore', cwd: '/' });
  child.on('error', () => {});
  child.unref();
  const end = () => {
    try {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // It has just ended.
    }
  };
  return { isNeeded: true, end };
}

async function copyVolume(
  { path: device, sizeBytes }: VolumeInUse,
  file: string,
  signal: AbortSignal,
): Promise<void> {
  const source = await open(device, 'r');
  let target: FileHandle | undefined;
  try {
    target = await open(file, 'w', 0o600);
    let at = 0;
    for await (const piece of readDisk({ read: readFrom(source), sizeBytes, empty: [] })) {
      signal.throwIfAborted();
      if (!piece.equals(ZEROS.subarray(0, piece.length))) await target.write(piece, 0, piece.length, at);
      at += piece.length;
    }
    await target.truncate(sizeBytes);
  } finally {
    await target?.close();
    await source.close();
  }
}

/** How often something was written to a device since the machine has started, as the kernel counts it. */
async function writesTo(device: string): Promise<string | undefined> {
  const file = `/sys/class/block/${path.basename(device)}/stat`;
  const text = await readFile(file, 'utf8').catch(() => '');
  const [, , , , writes, , sectors, , inFlight] = text.trim().split(/\s+/);
  return inFlight === '0' && writes !== undefined ? `${writes} ${sectors}` : undefined;
}
