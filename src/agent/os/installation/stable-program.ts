import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { copyFile, open, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { hasCode } from '../files/private-file.ts';
import { componentFolder, programFile, programName } from './layout.ts';

/**
 * Windows has no link to the current executable, so a copy of it lies under a path that never changes: the scheduled task
 * names that one, and an upgrade replaces it.
 */
export const stableProgram = (programs: string): string =>
  path.join(componentFolder(programs, 'watchdog'), programName('watchdog'));

/** A program that runs cannot be overwritten there. It can be renamed. */
const IN_USE = ['EPERM', 'EACCES', 'EBUSY'];

/** Copies the executable of a version to the stable path. Does nothing where it is there already, or is not installed. */
export async function placeStableProgram(programs: string, version: string): Promise<void> {
  const [from, to] = [programFile(programs, 'watchdog', version), stableProgram(programs)];
  const size = await sizeOf(from);
  if (size === undefined) return;
  if ((await sizeOf(to)) === size && (await sha256Of(to)) === (await sha256Of(from))) return;
  const mark = randomBytes(8).toString('hex');
  const [draft, former] = [`${to}.${mark}.draft`, `${to}.${mark}.old`];
  try {
    await copyFile(from, draft);
    const handle = await open(draft, 'r+');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, to).catch(async (error: unknown) => {
      if (!IN_USE.some((code) => hasCode(error, code))) throw error;
      await rename(to, former);
      // The next start removes it, when it has ended.
      await rename(draft, to).catch(async (failure: unknown) => {
        await rename(former, to);
        throw failure;
      });
    });
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

const sizeOf = async (file: string): Promise<number | undefined> =>
  (await stat(file).catch(() => undefined))?.size;

export async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}
