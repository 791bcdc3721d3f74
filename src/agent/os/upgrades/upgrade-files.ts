import { mkdir, open, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { hasCode, writePrivateJson } from '../files/private-file.ts';

/** The folder for everything that the agent and its watchdog keep about upgrades. */
export const upgradesIn = (dataDir: string): string => path.join(dataDir, 'upgrades');

const RESERVE = 'reserve';
const RESERVE_BYTES = 64 * 1024;

/** Keeps a few kilobytes for the notes of an upgrade, which must be written also when the disk is full. */
export async function keepReserve(dataDir: string): Promise<void> {
  const folder = upgradesIn(dataDir);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = path.join(folder, RESERVE);
  if ((await stat(file).catch(() => undefined))?.size === RESERVE_BYTES) return;
  try {
    const handle = await open(file, 'w', 0o600);
    try {
      await handle.writeFile(Buffer.alloc(RESERVE_BYTES, 1));
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch {
    // The disk is full already. The next start tries again.
    await rm(file, { force: true });
  }
}

/** Writes a note. On a full disk, the reserve makes room for it. */
export async function writeNote(dataDir: string, name: string, value: unknown): Promise<void> {
  await withReserve(dataDir, () => writePrivateJson(path.join(upgradesIn(dataDir), name), value));
}

export async function withReserve<T>(dataDir: string, write: () => T | Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!hasCode(error, 'ENOSPC')) throw error;
    await rm(path.join(upgradesIn(dataDir), RESERVE), { force: true });
    return write();
  }
}
