import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import path from 'node:path';
import { readOutput } from '../../os/processes/child-process.ts';

/** Servers of databases that run on this machine, as Linux shows their processes. */

export interface ServerProcess {
  pid: number;
  program: string;
  folder: string;
  uid: number;
  gid: number;
}

const DELETED = / \(deleted\)$/;

/** Those whose program has one of these names, without their own children. */
export async function serverProcesses(names: ReadonlySet<string>): Promise<ServerProcess[]> {
  if (process.platform !== 'linux') return [];
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found: (ServerProcess & { parent: number })[] = [];
  for (const pid of pids) {
    const one = await readProcess(pid, names).catch(() => undefined);
    if (one !== undefined) found.push(one);
  }
  const all = new Set(found.map(({ pid }) => pid));
  return found.filter(({ parent }) => !all.has(parent));
}

/** `undefined` for others. A process that has ended meanwhile, or that cannot be looked at, rejects. */
async function readProcess(pid: number, names: ReadonlySet<string>) {
  // An upgrade replaces the program of a server that runs on.
  const program = (await readlink(`/proc/${pid}/exe`)).replace(DELETED, '');
  if (!names.has(path.basename(program))) return undefined;
  const folder = await readlink(`/proc/${pid}/cwd`);
  const { uid, gid } = await stat(`/proc/${pid}`);
  const line = await readFile(`/proc/${pid}/stat`, 'latin1');
  // The name of the program is in parentheses, and may contain some.
  const parent = Number(line.slice(line.lastIndexOf(')') + 2).split(' ')[1]);
  return { pid, program, folder, uid, gid, parent };
}

/** The sockets of the file system that a process listens at. */
export async function listeningSockets(pid: number): Promise<string[]> {
  const handles = await readdir(`/proc/${pid}/fd`);
  const inodes = new Set<string>();
  for (const handle of handles) {
    const target = await readlink(`/proc/${pid}/fd/${handle}`).catch(() => '');
    const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
    if (inode !== undefined) inodes.add(inode);
  }
  const lines = (await readFile('/proc/net/unix', 'utf8')).split('\n').slice(1);
  return lines.flatMap((line) => {
    // Num RefCount Protocol Flags Type St Inode Path: 00010000 says that somebody listens.
    const [, flags, , , inode, file] = /^\S+ \S+ \S+ (\S+) (\S+) (\S+) +(\d+) (.+)$/.exec(line) ?? [];
    return flags === '00010000' && inode !== undefined && inodes.has(inode) && file?.startsWith('/') === true
      ? [file]
      : [];
  });
}

/** The name and the home of a user; `undefined` where the system knows none. */
export async function userOf(uid: number): Promise<{ name: string; home: string } | undefined> {
  const line = await readOutput('getent', ['passwd', String(uid)]).catch(() => '');
  const [name = '', , , , , home = '/'] = line.trimEnd().split(':');
  return name === '' ? undefined : { name, home };
}
