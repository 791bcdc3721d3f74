import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, statfsSync, symlinkSync, writeFileSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import path from 'node:path';

const MEMORY = '/dev/shm';
/** In bytes: several times what the temporary files of a run, databases included, take at once (460 MB were seen). */
const ROOM_IN_MEMORY = 4 * 1024 ** 3;

/**
 * Makes the folder of all temporary files of this process and of those that it starts (`TMPDIR`). It is removed when the
 * process ends, with whatever tests have left in it. It is in memory where there is room and programs can be started from
 * there: a disk takes up to half a second for each of the hundreds of databases that the tests make, and Linux searches
 * longer and longer for the place of a new file after thousands have been removed.
 */
export function useTemporaryFolder(): string {
  const usual = tmpdir();
  const folder = folderInMemory() ?? openToAll(usual);
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  process.env['TMPDIR'] = folder;
  // What tsx has compiled in earlier runs is still used.
  const compiled = `tsx-${process.geteuid?.() ?? ''}`;
  if (existsSync(path.join(usual, compiled))) {
    symlinkSync(path.join(usual, compiled), path.join(folder, compiled));
  }
  return folder;
}

function folderInMemory(): string | undefined {
  if (!hasRoom()) return undefined;
  const folder = openToAll(MEMORY);
  if (startsPrograms(folder)) return folder;
  rmSync(folder, { recursive: true });
  return undefined;
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return Math.min(bavail * bsize, freemem()) >= ROOM_IN_MEMORY;
  } catch {
    // Only Linux has it.
    return false;
  }
}

/** Containers often mount it so that no program starts from there. */
function startsPrograms(folder: string): boolean {
  const program = path.join(folder, 'program');
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 });
  try {
    execFileSync(program);
    return true;
  } catch {
    return false;
  }
}

/** The name is short because the address of a Unix socket has at most 107 characters. */
function openToAll(within: string): string {
  const folder = mkdtempSync(path.join(within, 'mt-'));
  // Postgres and other servers run under accounts of their own where we are root.
  chmodSync(folder, 0o1777);
  return folder;
}
