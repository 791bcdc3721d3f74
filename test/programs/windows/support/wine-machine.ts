import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { type StandIns, startStandIns } from './stand-ins.ts';

/** A Windows machine of its own, as far as Wine is one. */

/**
 * Programs that Wine lacks, or whose versions of Wine do nothing or something else than Windows. Its `taskkill` does not
 * know `/T`. The launcher of Python, `py`, is where its installer puts it: on the search path of every user.
 */
const STAND_INS = ['whoami', 'icacls', 'powershell', 'schtasks', 'taskkill', 'wevtutil', 'py'] as const;

export interface WineProgram {
  child: ChildProcess;
  /** The file with what it has written so far, to both of its streams. */
  outputFile: string;
  /** The exit code; `null` if it was killed. */
  ended: Promise<number | null>;
}

export interface WineMachine {
  standIns: StandIns;
  /** The path on this machine of a path such as `C:\ProgramData`. */
  host(windowsPath: string): string;
  /** Starts a Windows program. Its streams are files, because Node for Windows cannot open the pipes that Wine gives it. */
  start(program: string, args: readonly string[], env?: Record<string, string>): WineProgram;
  /** Runs it to its end. */
  run(
    program: string,
    args: readonly string[],
    env?: Record<string, string>,
  ): Promise<{ code: number | null; output: string }>;
  /** Ends a process, by its id in Windows, and all that it and they have started. Returns whether it was there. */
  endTree(pid: number): Promise<boolean>;
  /** The ids, on this machine, of its processes whose command line contains the text. */
  processes(text: string): Promise<number[]>;
  close(): Promise<void>;
}

export async function startWineMachine(): Promise<WineMachine> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-wine-'));
  const prefix = path.join(folder, 'prefix');
  const drive = path.join(prefix, 'drive_c');
  const { PATH = '' } = process.env;
  const base = {
    PATH,
    HOME: folder,
    WINEPREFIX: prefix,
    WINEARCH: 'win64',
    WINEDEBUG: '-all',
    DISPLAY: '',
    LC_ALL: 'C.UTF-8',
  };
  const tool = (command: string, args: string[]) =>
    promisify(execFile)(command, args, { env: base, timeout: 120_000 });
  await tool('wineboot', ['--init']);
  await tool('winecfg', ['-v', 'win10']);
  const standIns = await startStandIns(drive, STAND_INS);
  const env = { ...base, WINEDLLOVERRIDES: `${STAND_INS.map((name) => `${name}.exe`).join(',')}=n` };
  const running = new Set<ChildProcess>();
  let count = 0;

  const start: WineMachine['start'] = (program, args, more = {}) => {
    const file = path.join(folder, `output-${(count += 1)}`);
    const out = openSync(file, 'w');
    const child = spawn('wine', [program, ...args], {
      env: { ...env, ...more },
      stdio: ['ignore', out, out],
    });
    closeSync(out);
    running.add(child);
    const ended = new Promise<number | null>((resolve) => {
      child.once('close', (code) => {
        running.delete(child);
        resolve(code);
      });
    });
    return { child, outputFile: file, ended };
  };

  return {
    standIns,
    host: (windowsPath) => path.join(drive, ...windowsPath.replace(/^[cC]:\\/, '').split('\\')),
    start,
    async run(program, args, more) {
      const { ended, outputFile } = start(program, args, more);
      const code = await ended;
      return { code, output: await readFile(outputFile, 'utf8') };
    },
    async endTree(pid) {
      const { stdout } = await tool('winedbg', ['--command', 'info proc']);
      // One process a line: its id, its threads, and its program behind a branch for each level of the tree.
      const all = [...stdout.matchAll(/^[ =]([0-9a-f]{8}) .*?'/gm)].map(([line, id = '']) => ({
        id: Number.parseInt(id, 16),
        depth: line.length,
      }));
      const at = all.findIndex(({ id }) => id === pid);
      const [first, ...others] = at === -1 ? [] : all.slice(at);
      if (first === undefined) return false;
      const end = others.findIndex(({ depth }) => depth <= first.depth);
      const tree = [first, ...others.slice(0, end === -1 ? undefined : end)];
      // Wine's own, which ends one process.
      for (const { id } of tree) await tool('wine', ['taskkill', '/f', '/pid', String(id)]).catch(() => {});
      return true;
    },
    async processes(text) {
      const found: number[] = [];
      for (const name of await readdir('/proc')) {
        if (!/^\d+$/.test(name)) continue;
        const read = (file: string) => readFile(`/proc/${name}/${file}`, 'utf8').catch(() => '');
        const isOwn = (await read('environ')).split('\0').includes(`WINEPREFIX=${prefix}`);
        if (isOwn && (await read('cmdline')).replaceAll('\0', ' ').includes(text)) found.push(Number(name));
      }
      return found;
    },
    async close() {
      for (const child of running) child.kill('SIGKILL');
      await tool('wineserver', ['--kill']).catch(() => {});
      await tool('wineserver', ['--wait']).catch(() => {});
      await standIns.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
