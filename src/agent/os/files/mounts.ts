import { readFile } from 'node:fs/promises';
import { clock } from '../../../clock.ts';
import { readOutput } from '../processes/child-process.ts';

/** Mounted folders of Linux, dead ones included: each call here has a limit of time, and none blocks this process. */

const STAT_MS = 5000;
const ROUNDS = 50;
const ROUND_MS = 100;

/** The folders at which something is mounted now; a folder is named as often as something is stacked on it. */
export async function mountPoints(): Promise<string[]> {
  const lines = (await readFile('/proc/self/mountinfo', 'latin1')).split('\n');
  return lines.flatMap((line) => {
    const point = line.split(' ')[4];
    return point === undefined ? [] : [unescaped(point)];
  });
}

/** Spaces, tabs, ends of lines and backslashes are written as three octal digits. */
const unescaped = (text: string) =>
  Buffer.from(
    text.replaceAll(/\\([0-7]{3})/g, (_all, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))),
    'latin1',
  ).toString('utf8');

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
  for (let round = 0; round < ROUNDS; round += 1) {
    if (!(await mountPoints()).includes(folder)) return true;
    await readOutput('umount', ['-l', '--', folder]).catch(() =>
      readOutput('fusermount3', ['-uz', '--', folder]).catch(() => ''),
    );
    if (!(await mountPoints()).includes(folder)) return true;
    await clock.sleep(ROUND_MS);
  }
  return false;
}
