import { readFile } from 'node:fs/promises';
import { clock } from '../../../clock.ts';
import { readOutput } from '../child-process.ts';
import { nameText } from './open-folder.ts';

/** Mounted folders of Linux, including dead mounts: each call has a time limit, and none blocks this process. */

const STAT_MS = 5000;
const ROUNDS = 50;
const ROUND_MS = 100;

export interface Mount {
  id: number;
  /** The id of the parent mount. */
  parentId: number;
  /** As `pathText` writes it. */
  point: string;
  /** The kind of file system, such as `ext4` or `proc`. */
  type: string;
}

export const readMounts = async (): Promise<Mount[]> =>
  parseMounts(await readFile('/proc/self/mountinfo', 'latin1'));

/** @param mountinfo  each byte as one character, because names need not be UTF-8 */
export function parseMounts(mountinfo: string): Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [fields = '', fileSystem = ''] = line.split(' - ');
    const [id, parentId, , , point] = fields.split(' ');
    const [type] = fileSystem.split(' ');
    if (point === undefined || type === undefined) return [];
    return [{ id: Number(id), parentId: Number(parentId), point: unescaped(point), type }];
  });
}

/** Mount points, as `pathText` writes them, each as often as mounts are stacked on it. */
export const mountPoints = async (): Promise<string[]> => (await readMounts()).map(({ point }) => point);

/** Spaces, tabs, newlines and backslashes are escaped as three octal digits. */
const unescaped = (text: string) =>
  nameText(
    Buffer.from(
      text.replaceAll(/\\([0-7]{3})/g, (_all, octal: string) =>
        String.fromCharCode(Number.parseInt(octal, 8)),
      ),
      'latin1',
    ),
  );

/**
 * The size of a file on a mount that may be dead; `undefined` if it cannot be read in time. A stat in this process
 * would block one of its threads while the mount hangs.
 */
export async function sizeOnMount(file: string, timeoutMs = STAT_MS): Promise<number | undefined> {
  const text = readOutput('stat', ['-c', '%s', '--', file], { timeoutMs }).catch(() => '');
  // A process that is blocked on a dead mount cannot even be killed.
  const late = clock.sleep(timeoutMs + 1000, { unref: true }).then(() => '');
  const size = (await Promise.race([text, late])).trim();
  return /^\d{1,16}$/.test(size) ? Number(size) : undefined;
}

/** Unmounts everything at a folder, including mounts that are dead or in use. Returns whether that has succeeded. */
export async function unmountAll(folder: string): Promise<boolean> {
  const isMounted = async () => (await mountPoints()).includes(nameText(Buffer.from(folder)));
  for (let round = 0; round < ROUNDS; round += 1) {
    if (!(await isMounted())) return true;
    await readOutput('umount', ['-l', '--', folder]).catch(() =>
      readOutput('fusermount3', ['-uz', '--', folder]).catch(() => ''),
    );
    if (!(await isMounted())) return true;
    await clock.sleep(ROUND_MS);
  }
  return false;
}
