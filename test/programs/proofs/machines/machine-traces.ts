import { readlink } from 'node:fs/promises';
import path from 'node:path';
import { mountPoints, unmountAll } from '../../../../src/agent/os/files/mounts.ts';
import { findByCommand, endLeftover } from '../../../../src/agent/os/process-group.ts';

/**
 * What the machines of an agent have on this computer.
 * @param folder  in which everything of the test is
 * @param dataDir  of the agent
 */
export function machineTraces(folder: string, dataDir: string) {
  const mounts = async () => (await mountPoints()).filter((point) => point.startsWith(folder));
  /** The processes of restic that serve snapshots. */
  const engines = () =>
    findByCommand((words) => words.at(-1)?.startsWith(path.join(dataDir, 'backup/mounts')) === true);
  /** The processes of qemu. */
  const machines = async () => {
    const all = await findByCommand((words) => words.includes('-pidfile'));
    const folders = await Promise.all(all.map(({ pid }) => readlink(`/proc/${pid}/cwd`).catch(() => '')));
    return all.filter((_each, index) => folders[index]?.startsWith(folder) === true);
  };
  /** Ends all of it, and everything else with the folder on its command line. */
  const end = async () => {
    const named = await findByCommand((words) => words.some((word) => word.includes(folder)));
    for (const each of [...(await machines()), ...named]) {
      if (each.pid !== process.pid) await endLeftover(each);
    }
    for (const point of await mounts()) await unmountAll(point);
  };
  return { mounts, engines, machines, end };
}
