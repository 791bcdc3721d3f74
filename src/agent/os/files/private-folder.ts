import type { Stats } from 'node:fs';
import { chmod, lstat, mkdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { runSystemProgram, type RunSystemProgram } from '../processes/system-program.ts';
import { openWindowsFolder } from './windows-folder.ts';

/** A port, for tests of what other users and other systems do. */
export interface FolderSystem {
  platform: NodeJS.Platform;
  /** The user whom the agent runs as; `undefined` on Windows. */
  uid: number | undefined;
  stat: (file: string) => Promise<Pick<Stats, 'uid' | 'mode' | 'isDirectory'>>;
  run: RunSystemProgram;
}

const WRITABLE_BY_OTHERS = 0o022;
const ANY_RIGHT_OF_OTHERS = 0o077;
const STICKY = 0o1000;

/**
 * Makes the agent's folder where it is missing, sees to it that nobody but the agent's user and the administrators of
 * the machine can read or change what is in it, and answers its path without links. Throws where that is not so:
 * whoever can write there decides what the agent runs, which is mostly with all rights.
 */
export async function openPrivateFolder(folder: string, system: Partial<FolderSystem> = {}): Promise<string> {
  const { platform, uid, stat, run } = {
    platform: process.platform,
    uid: process.getuid?.(),
    stat: lstat,
    run: runSystemProgram,
    ...system,
  };
  if (platform === 'win32') return openWindowsFolder(folder, run);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const real = await realpath(folder);
  const found = await stat(real);
  if (!found.isDirectory()) throw refusal(real, 'it is not a folder.');
  if (found.uid !== uid) {
    throw refusal(real, `it belongs to user ${found.uid}, and the agent runs as user ${uid}.`);
  }
  if ((found.mode & WRITABLE_BY_OTHERS) !== 0) {
    throw refusal(
      real,
      `other users can write to it. Look at what is in it, then take their rights away: chmod 700 ${real}`,
    );
  }
  for (const parent of parentsOf(real)) {
    const { mode, uid: owner } = await stat(parent);
    if (owner !== uid && owner !== 0) {
      throw refusal(real, `user ${owner}, to whom ${parent} belongs, can put another folder in its place.`);
    }
    // In a sticky folder such as /tmp everybody makes names, and nobody renames those of others.
    if ((mode & WRITABLE_BY_OTHERS) !== 0 && (mode & STICKY) === 0) {
      throw refusal(real, `other users can write to ${parent} and put another folder in its place.`);
    }
  }
  if ((found.mode & ANY_RIGHT_OF_OTHERS) !== 0) await chmod(real, 0o700);
  return real;
}

function parentsOf(folder: string): string[] {
  const parent = path.dirname(folder);
  return parent === folder ? [] : [parent, ...parentsOf(parent)];
}

const refusal = (folder: string, why: string) =>
  new Error(`The folder ${folder} is not safe for the agent's files: ${why}`);
