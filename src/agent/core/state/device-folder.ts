import { createHash } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Credentials } from '../enrollment/credentials.ts';
import { hasCode } from '../../os/files/private-file.ts';

/**
 * The folder of what belongs to one device at one server: its journal of commands, what waits to be sent, what was sent
 * last. Two devices never share one, so that nothing of them is mixed; and a machine that is enrolled as a former device
 * again finds what that one had accepted.
 */

const DEVICES = 'devices';
/** Long after a server has given up on what was accepted. */
const KEEP_OTHERS_MS = 30 * 24 * 3_600_000;

/** Before there was a folder for each device, its files had its id in their names. */
const formerFiles = (deviceId: string) =>
  [
    [`commands-${deviceId}.journal`, 'commands.journal'],
    [`inventory-${deviceId}.json`, 'inventory.json'],
    [path.join('shipping', deviceId), 'shipping'],
  ] as const;

export async function openDeviceFolder(
  dataDir: string,
  { server, deviceId }: Pick<Credentials, 'server' | 'deviceId'>,
): Promise<string> {
  const devices = path.join(dataDir, DEVICES);
  const id = encodeURIComponent(deviceId);
  const atServer = createHash('sha256').update(server).digest('hex').slice(0, 16);
  const folder = path.join(devices, `${id}-${atServer}`);
  const isNew = (await mkdir(folder, { recursive: true, mode: 0o700 })) !== undefined;
  for (const [former, name] of isNew ? formerFiles(id) : []) {
    await adopt(path.join(dataDir, former), path.join(folder, name));
  }
  await forgetOthers(devices, path.basename(folder));
  return folder;
}

async function adopt(former: string, file: string): Promise<void> {
  try {
    await rename(former, file);
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
  }
}

async function forgetOthers(devices: string, own: string): Promise<void> {
  for (const name of await readdir(devices)) {
    if (name === own) continue;
    const folder = path.join(devices, name);
    // What the former device has seen is not sent any more; what it has accepted it may be asked about.
    await rm(path.join(folder, 'shipping'), { recursive: true, force: true });
    const { mtimeMs } = await stat(path.join(folder, 'commands.journal')).catch(() => ({ mtimeMs: 0 }));
    if (Date.now() - mtimeMs > KEEP_OTHERS_MS) await rm(folder, { recursive: true, force: true });
  }
}
