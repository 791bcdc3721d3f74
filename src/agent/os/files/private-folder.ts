import type { Stats } from 'node:fs';
import { chmod, lstat, mkdir, realpath, mkdtemp, readdir, rename, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { runSystemProgram, type RunSystemProgram } from '../child-process.ts';

/**
 * The agent's folder on Windows. There, file modes have no effect, and every local user can create files in folders below
 * ProgramData. Written from the documentation of `icacls` and SDDL; not yet run on Windows.
 */

const SYSTEM = 'S-1-5-18';
const ADMINISTRATORS = 'S-1-5-32-544';
/** The names of these accounts in SDDL. */
const ALIASES: Readonly<Record<string, string>> = { SY: SYSTEM, BA: ADMINISTRATORS };
const READ_SDDL = '(Get-Acl -LiteralPath $env:MUSTER_FOLDER).Sddl';

/** A new folder gets its rights before its final name. An existing folder is only checked. */
export async function openWindowsFolder(folder: string, run: RunSystemProgram): Promise<string> {
  const trusted = [...new Set([SYSTEM, ADMINISTRATORS, await ownSid(run)])];
  const content = await readdir(folder).catch(() => undefined);
  if (content !== undefined) {
    const fault = faultOf(await sddlOf(folder, run), trusted);
    if (fault === undefined) return folder;
    if (content.length > 0) {
      throw new Error(
        `The folder ${folder} is not safe for the agent's files: ${fault} Check its content, then remove it and enroll again.`,
      );
    }
    // The folder is empty. If a file is created in it now, this fails.
    await rmdir(folder);
  }
  await mkdir(path.dirname(folder), { recursive: true });
  const draft = await mkdtemp(`${folder}.`);
  try {
    const rights = trusted.flatMap((sid) => ['/grant:r', `*${sid}:(OI)(CI)F`]);
    await run('icacls', [draft, '/setowner', `*${ADMINISTRATORS}`]).catch(() => {
      // A user without administrator rights keeps the folder, which is just as safe.
    });
    await run('icacls', [draft, '/inheritance:r', ...rights]);
    const fault = faultOf(await sddlOf(draft, run), trusted);
    if (fault !== undefined) throw new Error(`The rights of the folder ${folder} could not be set: ${fault}`);
    if ((await readdir(draft)).length > 0) {
      throw new Error(`Another user writes to the new folder ${draft}.`);
    }
    await rename(draft, folder);
  } catch (error) {
    await rmdir(draft).catch(() => {});
    throw error;
  }
  return folder;
}

/** Why others have access to a folder with these rights; `undefined` if they have none. */
export function faultOf(sddl: string, trusted: readonly string[]): string | undefined {
  const owner = /^O:(S-[\d-]+|[A-Z]{2})/.exec(sddl)?.[1] ?? 'nobody';
  if (!trusted.includes(sidOf(owner))) return `It belongs to ${owner}.`;
  const list = /D:([A-Z]*)((?:\([^()]*\))*)/.exec(sddl);
  if (list === null || list[2] === '') return 'It has no access control list, so everyone has access.';
  if (!list[1]?.includes('P')) return 'It inherits rights from the folder above.';
  for (const [, entry = ''] of list[2]?.matchAll(/\(([^()]*)\)/g) ?? []) {
    const [type, , , , , holder = ''] = entry.split(';');
    // Entries that deny access are harmless.
    if (type !== 'D' && !trusted.includes(sidOf(holder))) return `${holder} has rights in it.`;
  }
  return undefined;
}

const sidOf = (text: string) => ALIASES[text] ?? text;

async function ownSid(run: RunSystemProgram): Promise<string> {
  const found = /"(S-1-[\d-]+)"/.exec(await run('whoami', ['/user', '/fo', 'csv', '/nh']))?.[1];
  if (found === undefined) throw new Error('Windows does not report which user the agent runs as.');
  return found;
}

async function sddlOf(folder: string, run: RunSystemProgram): Promise<string> {
  const args = ['-NoLogo', '-NoProfile', '-NonInteractive', '-Command', READ_SDDL];
  return (await run('powershell', args, { MUSTER_FOLDER: folder })).trim();
}

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
 * Creates the agent's folder if it does not exist, and ensures that only the agent's user and the administrators of
 * the machine can read or change it. Returns its path without links. Throws if the folder is not safe: any user with
 * write access would control what the agent runs, usually with full privileges.
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
