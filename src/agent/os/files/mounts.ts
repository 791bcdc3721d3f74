import { readFile } from 'node:fs/promises';
import { clock } from '../../../clock.ts';
import { nameText } from './path-bytes.ts';
import { readOutput } from '../processes/child-process.ts';

/** Mounted folders of Linux, dead ones included: each call here has a limit of time, and none blocks this process. */

const STAT_MS = 5000;
const ROUNDS = 50;
const ROUND_MS = 100;

export interface Mount {
  id: number;
  /** The mount in which its folder lies. */
  parentId: number;
  /** As `pathText` writes it. */
  point: string;
  /** The kind of file system, such as `ext4` or `proc`. */
  type: string;
}

export const readMounts = async (): Promise<Mount[]> =>
  parseMounts(await readFile('/proc/self/mountinfo', 'latin1'));

/** @param mountinfo  each byte as one character: names need not be UTF-8 */
export function parseMounts(mountinfo: string): Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [fields = '', fileSystem = ''] = line.split(' - ');
    const [id, parentId, , , point] = fields.split(' ');
    const [type] = fileSystem.split(' ');
    if (point === undefined || type === undefined) return [];
    return [{ id: Number(id), parentId: Number(parentId), point: unescaped(point), type }];
  });
}

/** The folders at which something is mounted now, as `pathText` writes them, each as often as something is stacked on it. */
export const mountPoints = async (): Promise<string[]> => (await readMounts()).map(({ point }) => point);

/** Spaces, tabs, ends of lines and backslashes are written as three octal digits. */
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
 * The size of a file on a mount that may be dead; `undefined` where it cannot be read in time. A call of our own would
 * keep a thread of this process for as long as the mount hangs.
 */
export async function sizeOnMount(file: string, timeoutMs = STAT_MS): Promise<number | undefined> {
  const text = readOutput('stat', ['-c', '%s', '--', file], { timeoutMs }).catch(() => '');
  // A process that waits for a mount that was stopped cannot even be killed.
  const late = clock.sleep(timeoutMs + 1000, { unref: true }).then(() => '');
  const size = (await Promise.race([text, late])).trim();
  return /^\d{1,16}$/.test(size) ? Number(size) : undefined;
}

/** Removes everything that is mounted at a folder, also what is dead or in use. Returns whether that has succeeded. */
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
