import { open } from 'node:fs/promises';
import { readOutput } from '../../os/processes/child-process.ts';
import { partitionsOf, type Partition } from './partitions.ts';

/**
 * What can be seen of a restored system before it starts, and keeps systems from starting in a machine of another kind. It
 * is read without mounting anything, and only reported: to change it, the system has to run.
 */

const READ_MS = 20_000;
const TEXT_MAX = 200_000;

/** Warnings for people, of disks that are raw files. */
export async function findingsOf(files: readonly string[]): Promise<string[]> {
  const found = (
    await Promise.all(files.map((file) => partitionsOf(file).then((all) => ({ file, all }))))
  ).flatMap(({ file, all }) => all.map((partition) => ({ file, ...partition })));
  const uuids = new Set(found.flatMap(({ uuid }) => uuid ?? []));
  const warnings: string[] = [];
  for (const partition of found.filter(({ type }) => type === 'ext')) {
    const read = (name: string) => readFromExt(partition, name);
    const table = await read('/etc/fstab');
    if (table === undefined) continue;
    warnings.push(...fstabFindings(table, uuids));
    warnings.push(...initramfsFindings(await read('/etc/initramfs-tools/initramfs.conf')));
  }
  if (found.length > 0 && !found.some(({ type }) => type === 'ext')) {
    warnings.push(
      'The file systems of the machine cannot be read without starting it, so nothing was checked.',
    );
  }
  return warnings.slice(0, 50);
}

/** Lines of a table of file systems that do not hold in another machine. */
export function fstabFindings(table: string, uuids: ReadonlySet<string>): string[] {
  return table.split('\n').flatMap((line) => {
    const [device = '', folder = ''] = line.trim().split(/\s+/);
    if (device === '' || device.startsWith('#')) return [];
    const shown = folder.slice(0, 100);
    if (/^\/dev\/(sd|hd|vd|xvd|nvme)/.test(device)) {
      return [`${shown} is mounted from ${device.slice(0, 100)}, which has another name in this machine.`];
    }
    const uuid = /^UUID="?([0-9A-Fa-f-]+)"?$/.exec(device)?.[1]?.toLowerCase();
    if (uuid === undefined || uuids.has(uuid) || /\bnofail\b/.test(line)) return [];
    return [
      `${shown} is mounted by a UUID that is on none of the disks. The machine may wait for it at its start.`,
    ];
  });
}

/** An initramfs that has only what the former machine needed. */
export function initramfsFindings(config: string | undefined): string[] {
  if (config === undefined || !/^\s*MODULES\s*=\s*"?dep/m.test(config)) return [];
  return [
    'The start of the system knows only the hardware of its former machine (MODULES=dep). If it does not find its disk, start the original with MODULES=most and back it up again.',
  ];
}

/** A file of an ext file system; `undefined` where it is not there. The journal is not replayed. */
async function readFromExt(
  { file, start }: Partition & { file: string },
  name: string,
): Promise<string | undefined> {
  // A name with a question mark or a quotation mark would mean something else to debugfs.
  const handle = await open(file, 'r');
  try {
    const image = `/proc/${process.pid}/fd/${handle.fd}?offset=${start}`;
    const text = await readOutput('debugfs', ['-R', `cat ${name}`, image], {
      timeoutMs: READ_MS,
      maxLength: TEXT_MAX,
    });
    return text === '' ? undefined : text;
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}
