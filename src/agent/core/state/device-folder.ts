import { createHash } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import type { Credentials } from '../enrollment/credentials.ts';
import { hasCode } from '../../os/files/private-file.ts';

/**
 * The folder of one device of one server: its journal of commands, the records to be sent, and a note of what was sent
 * last. Devices never share a folder, so their data is never mixed. A machine that is enrolled again as a former device
 * finds the commands that it had accepted as that device.
 */

const DEVICES = 'devices';
/** Much longer than a server waits for an accepted command. */
const KEEP_OTHERS_MS = 30 * 24 * 3_600_000;

/** Earlier releases had no folder for each device; the names of the files contained its id. */
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
    // Records of a former device are no longer sent. Its journal stays, because the device may be enrolled again.
    await rm(path.join(folder, 'shipping'), { recursive: true, force: true });
    const { mtimeMs } = await stat(path.join(folder, 'commands.journal')).catch(() => ({ mtimeMs: 0 }));
    if (clock.now() - mtimeMs > KEEP_OTHERS_MS) await rm(folder, { recursive: true, force: true });
  }
}
