import { createHash } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { readdir, rm, rmdir, unlink, mkdir, rename, stat } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../clock.ts';
import { hasCode } from '../os/files/private-file.ts';
import type { Credentials } from './settings.ts';

/** The draft of a file whose process was killed while writing. */
const DRAFT = /\.[0-9a-f]{16}\.draft$/;

/** Paths that were not removed. */
export interface LeftData {
  /** They do not belong to the agent. */
  foreign: string[];
  /** Another program uses them, which on Windows keeps them from being removed. */
  inUse: string[];
}

/** Removes the agent's files and the folders that are empty then, and the agent's own folder last. */
export async function removeData(dataDir: string): Promise<LeftData> {
  const left: LeftData = { foreign: [], inUse: [] };
  await removeOwn(dataDir, OWN_NAMES, left);
  return left;
}

async function removeOwn(folder: string, own: OwnNames, left: LeftData): Promise<void> {
  const before = left.foreign.length + left.inUse.length;
  for (const entry of await readdirUnlessDead(folder, left)) {
    const place = path.join(folder, entry.name);
    const content = contentOf(entry, own);
    if (content === undefined) left.foreign.push(place);
    else if (content === 'file') await unlessInUse(unlink(place), place, left);
    else if (content === 'everything') await unlessInUse(rm(place, EVERYTHING), place, left);
    else await removeOwn(place, content, left);
  }
  if (left.foreign.length + left.inUse.length > before) return;
  await unlessInUse(
    rmdir(folder).catch((error: unknown) => {
      // Keep the folder if a file was added in the meantime.
      if (!hasCode(error, 'ENOTEMPTY') && !hasCode(error, 'EEXIST')) throw error;
    }),
    folder,
    left,
  );
}

/** The program that served a mount may have ended, and then the mount point cannot be read until it is unmounted. */
const readdirUnlessDead = (folder: string, left: LeftData): Promise<Dirent[]> =>
  readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    if (!hasCode(error, 'ENOTCONN')) throw error;
    left.inUse.push(folder);
    return [];
  });

/** A program that has just ended holds its files for a moment longer. */
const EVERYTHING = { recursive: true, force: true, maxRetries: 5, retryDelay: 100 };

const IN_USE = ['EBUSY', 'EPERM', 'EACCES'];

async function unlessInUse(removal: Promise<void>, place: string, left: LeftData): Promise<void> {
  try {
    await removal;
  } catch (error) {
    if (!IN_USE.some((code) => hasCode(error, code))) throw error;
    left.inUse.push(place);
  }
}

/** The agent's entry with this name; `undefined` if it is not the agent's. A link to a folder is not a folder. Pure. */
function contentOf(
  entry: Dirent,
  { files, folders }: OwnNames,
): OwnNames | 'everything' | 'file' | undefined {
  if (entry.isDirectory()) return folders?.find(([name]) => name.test(entry.name))?.[1];
  return entry.isFile() && files?.test(entry.name.replace(DRAFT, '')) === true ? 'file' : undefined;
}

/**
 * The folder of one device of one server: its journal of commands, unsent records, and a note of what was sent last.
 * Devices never share a folder, so their data is never mixed. A machine that is enrolled again as a former device
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

/**
 * Every name that the agent and its watchdog write into their folder. Only these are removed when the machine leaves
 * its server: the folder may have been chosen although it holds other files, or may have received some later. Files
 * restored from a backup (`backup/restored`) and virtual machines (`machines`) belong to the machine and are not listed.
 * `test/contract/agent-files.test.ts` finds a name that is written and not listed.
 */
interface OwnNames {
  files?: RegExp;
  folders?: readonly (readonly [name: RegExp, content: OwnNames | 'everything'])[];
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const BATCHES: OwnNames = { files: /^\d{12}\.jsonl$/ };
const SHIPPING: OwnNames = {
  files: /^marks\.json$/,
  folders: [
    [/^events$/, BATCHES],
    [/^lines$/, BATCHES],
  ],
};
const UPGRADES: OwnNames = {
  files:
    /^((agent-ends|agent-process|attempt|failures|observation|offer|proven|trial|trusted-keys)\.json|apply-request\.json(\.taken)?|reserve|upgrades\.journal(\.1)?)$/,
  folders: [
    [/^downloads$/, { files: /^[0-9a-f]{64}\.part$/ }],
    [/^statuses$/, { files: /^\d{12}-[\w-]+\.json$/ }],
  ],
};
const BACKUP: OwnNames = {
  files: /^authorities\.pem$/,
  folders: [
    // restic's cache and, outside Linux, secrets left by a killed run.
    [
      /^engine$/,
      {
        folders: [
          [/^cache$/, 'everything'],
          [/^secrets$/, 'everything'],
        ],
      },
    ],
    [/^(database-)?processes$/, { files: /^\d+\.json$/ }],
    [/^images$/, { files: /^.+\.journal$/ }],
    [/^(image-volumes|machines|spool)$/, 'everything'],
    // Nothing below a mount point is removed: a snapshot that is still mounted stays.
    [/^mounts$/, { files: /^[0-9a-f]{64}\.log$/, folders: [[/^[0-9a-f]{64}$/, {}]] }],
    [/^sql$/, { files: /^[0-9a-f]{16}\.sql$/ }],
    [/^restores$/, { files: /^.+\.json$/ }],
    [/^staging$/, { folders: [[UUID, 'everything']] }],
    [/^verified$/, { folders: [[UUID, 'everything']] }],
  ],
};

/** Whether a file or folder of this name is one that the agent removes. */
export function isOwnName(name: string, { files, folders = [] }: OwnNames = OWN_NAMES): boolean {
  return (
    files?.test(name) === true ||
    folders.some(
      ([pattern, content]) => pattern.test(name) || (typeof content === 'object' && isOwnName(name, content)),
    )
  );
}

const OWN_NAMES: OwnNames = {
  files:
    /^((credentials|settings|status|network|terminals|watchdog)\.json|ca\.pem|(agent|watchdog|credentials)\.lock\.\d+|commands-.+\.journal|inventory-.+\.json)$/,
  folders: [
    [/^devices$/, { folders: [[/^.+-[0-9a-f]{16}$/, 'everything']] }],
    [/^upgrades$/, UPGRADES],
    [/^logs$/, { files: /^(agent|watchdog|watchdog-trial)\.jsonl(\.\d)?$/ }],
    [/^scripts$/, { folders: [[/^run-\w{6}$/, 'everything']] }],
    [/^unpacked$/, { folders: [[/^part-\w{6}$/, 'everything']] }],
    [/^backup$/, BACKUP],
    // Files of earlier releases, below the id of a device.
    [/^shipping$/, { folders: [[UUID, SHIPPING]] }],
  ],
};
