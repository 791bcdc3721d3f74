import type { Stats } from 'node:fs';
import { chmod, lstat, mkdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { runSystemProgram, type RunSystemProgram } from '../processes/system-program.ts';
import { openWindowsFolder } from './windows-folder.ts';

/** A port, for tests with other users and other systems. */
export interface FolderSystem {
  platform: NodeJS.Platform;
  /** The user that the agent runs as; `undefined` on Windows. */
  uid: number | undefined;
  stat: (file: string) => Promise<Pick<Stats, 'uid' | 'mode' | 'isDirectory'>>;
  run: RunSystemProgram;
}

const WRITABLE_BY_OTHERS = 0o022;
const ANY_RIGHT_OF_OTHERS = 0o077;
const STICKY = 0o1000;

/**
 * Creates the agent's folder where it does not exist, and ensures that only the agent's user and the administrators of
 * the machine can read or change it. Returns its path without links. Throws where the folder is not safe: anyone who can
 * write there decides what the agent runs, mostly with full privileges.
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
      `other users can write to it. Check its content, then remove their rights: chmod 700 ${real}`,
    );
  }
  for (const parent of parentsOf(real)) {
    const { mode, uid: owner } = await stat(parent);
    if (owner !== uid && owner !== 0) {
      throw refusal(real, `${parent} belongs to user ${owner}, who can replace the folder.`);
    }
    // In a sticky folder such as /tmp, all users can create names, and none can rename those of others.
    if ((mode & WRITABLE_BY_OTHERS) !== 0 && (mode & STICKY) === 0) {
      throw refusal(real, `other users can write to ${parent} and replace the folder.`);
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
