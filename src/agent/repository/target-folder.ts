import { realpath, statfs } from 'node:fs/promises';
import path from 'node:path';
import { OpenFolder, nameBytes, nameText } from '../os/files/open-folder.ts';
import { hasCode } from '../os/files/private-file.ts';
import { isWriteRefused, targetError } from './local-engine.ts';

export interface Amount {
  files: number;
  bytes: number;
}

const MIB = 1024 ** 2;
/** A reserve for file system metadata, so that the disk is not filled to the last byte. */
const KEEP_FREE_BYTES = 64 * MIB;
/** A file uses whole blocks of the disk, the last of which is half empty on average. */
const BLOCK_LOSS = 0.5;

/** Throws `TARGET_FULL` if the disk has no room for what is restored. */
export async function assertRoom(folder: string | Buffer, { files, bytes }: Amount): Promise<void> {
  const { bavail, bsize, ffree } = await statfs(folder);
  const needed = bytes + Math.ceil(files * bsize * BLOCK_LOSS) + KEEP_FREE_BYTES;
  const free = bavail * bsize;
  if (needed > free) {
    throw targetError(
      'TARGET_FULL',
      `The restore needs ${inMib(needed)} MiB, and the disk has ${inMib(free)} MiB left. Make room there, or restore to another folder.`,
    );
  }
  // Some file systems have no limit of this kind and report 0.
  if (ffree > 0 && files > ffree) {
    throw targetError('TARGET_FULL', `The restore needs ${files} files, and the disk has room for ${ffree}.`);
  }
}

const inMib = (bytes: number) => Math.ceil(bytes / MIB);

const WRITABLE_BY_OTHERS = 0o022n;

/** Checks the path of a target, as `pathText` writes it, before anything is read or written. Throws `AgentError`. */
export function checkTargetPath(target: string, forbidden: string): void {
  if (!path.isAbsolute(target) || target.includes('\0')) throw unsafe('it must be an absolute path.');
  const resolved = path.resolve(target);
  if (path.dirname(resolved) === resolved) throw unsafe('it is the root of a disk. Choose a folder in it.');
  const relative = path.relative(nameText(Buffer.from(forbidden)), resolved);
  const isInside = relative === '' || !(relative.startsWith('..') || path.isAbsolute(relative));
  if (isInside) throw unsafe('it is the folder of the agent.');
}

/**
 * Opens the target, and creates the missing folders. Other users may be able to write to folders above it, so a link
 * is followed only if it belongs to this user or to root, in a folder that no other user can write to.
 */
export async function openTarget(target: string): Promise<OpenFolder> {
  const folder = await walkTo(target, { create: true });
  if (folder === undefined) throw unsafe('it was removed meanwhile.');
  return folder;
}

/** Opens the target without creating anything; `undefined` if it does not exist. */
export const findTarget = async (target: string): Promise<OpenFolder | undefined> =>
  walkTo(target, { create: false });

interface WalkOptions {
  create: boolean;
  /** In a resolved path, no further links are followed. */
  isResolved?: boolean;
}

async function walkTo(target: string, options: WalkOptions): Promise<OpenFolder | undefined> {
  try {
    return await walk(path.resolve(target), options);
  } catch (error) {
    if (isWriteRefused(error)) {
      throw targetError('TARGET_NOT_WRITABLE', 'The agent may not write to the folder to restore to.');
    }
    if (hasCode(error, 'ENAMETOOLONG')) throw unsafe('its path is too long.');
    throw error;
  }
}

async function walk(target: string, options: WalkOptions): Promise<OpenFolder | undefined> {
  const { root } = path.parse(target);
  const names = target
    .slice(root.length)
    .split(path.sep)
    .filter((name) => name !== '');
  let folder = await OpenFolder.open(root);
  try {
    for (const [index, text] of names.entries()) {
      const name = nameBytes(text);
      const found = await folder.find(name);
      if (found?.isSymbolicLink() === true) {
        if (options.isResolved === true || !(await isTrusted(folder, found.uid))) {
          throw unsafe(`${path.join(folder.text, text)} is a link.`);
        }
        const link = path.join(folder.text, text);
        const real = await realpath(nameBytes(link), { encoding: 'buffer' }).catch(() => {
          throw unsafe(`${link} is a link that leads nowhere.`);
        });
        await folder.close();
        const rest = names.slice(index + 1);
        return await walk(path.join(nameText(real), ...rest), { ...options, isResolved: true });
      }
      if (found !== undefined && !found.isDirectory()) {
        throw unsafe(`${path.join(folder.text, text)} is not a folder.`);
      }
      if (found === undefined && !options.create) {
        await folder.close();
        return undefined;
      }
      const next = await (found === undefined ? folder.makeFolder(name) : folder.folder(name));
      await folder.close();
      folder = next;
    }
    return folder;
  } catch (error) {
    await folder.close();
    throw error;
  }
}

async function isTrusted(folder: OpenFolder, owner: bigint): Promise<boolean> {
  const { mode, uid } = await folder.stat();
  const own = BigInt(process.getuid?.() ?? 0);
  const isOurs = [owner, uid].every((each) => each === 0n || each === own);
  return isOurs && (mode & WRITABLE_BY_OTHERS) === 0n;
}

const unsafe = (why: string) =>
  targetError('TARGET_UNSAFE', `The folder to restore to cannot be used: ${why}`);
