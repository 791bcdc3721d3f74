import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  access,
  rm,
  writeFile,
  chmod,
  copyFile,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { type RunSystemProgram, systemProgram } from './child-process.ts';
import {
  JOB_LABEL,
  launchdJob,
  OPENRC_SERVICE,
  openrcScript,
  scheduledTask,
  shellWord,
  TASK_NAME,
  type ServicePlace,
  systemdUnit,
  UNIT_NAME,
  linkedProgram,
} from './service-definitions.ts';
import { syncFolder } from './files/private-file.ts';
import {
  chooseRelease,
  currentRelease,
  placeStableProgram,
  sha256Of,
  programFile,
} from './releases/layout.ts';

export type ServiceState = 'running' | 'stopped' | 'not_installed';

/** Starts the agent with the machine, and again when it ends. */
export interface ServiceManager {
  name: string;
  /** Path of the service definition. */
  file: string;
  /** Writes the service definition. Returns whether it has changed. */
  install(): Promise<boolean>;
  /** Starts the service; restarts a running one, so that a new program is used. */
  restart(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
  state(): Promise<ServiceState>;
  /** Stops the service and removes it. */
  remove(): Promise<void>;
}

/** Longer than a service may take to stop. */
const STEP_MS = 150_000;

/** Runs the program of a service manager. If it fails, the error has the program's message. */
export const runManager: RunSystemProgram = async (name, words) => {
  try {
    const { stdout } = await promisify(execFile)(systemProgram(name), [...words], {
      timeout: STEP_MS,
      windowsHide: true,
      maxBuffer: 1_000_000,
    });
    return stdout;
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    throw new Error(`${name} ${words.join(' ')} failed: ${said === '' ? String(error) : said}`, {
      cause: error,
    });
  }
};

interface Parts {
  place: ServicePlace;
  run: RunSystemProgram;
}

/** `undefined` if nothing on this machine starts services, as in most containers. */
export async function serviceManager(
  parts: Parts & { program: string; platform?: NodeJS.Platform },
): Promise<ServiceManager | undefined> {
  switch (parts.platform ?? process.platform) {
    case 'win32':
      return taskScheduler(parts);
    case 'darwin':
      return launchd(parts);
    default:
      return linuxManager(parts);
  }
}

/** By the file that each makes when it starts the machine: a package that is only installed starts nothing. */
async function linuxManager(parts: Parts): Promise<ServiceManager | undefined> {
  const isThere = (file: string) => exists(path.posix.join(parts.place.prefix, file));
  if (await isThere('/run/systemd/system')) return systemd(parts);
  if (await isThere('/run/openrc/softlevel')) return openrc(parts);
  return undefined;
}

function systemd({ place, run }: Parts): ServiceManager {
  const file = path.posix.join(place.prefix, '/etc/systemd/system', UNIT_NAME);
  const systemctl = (...words: string[]) => run('systemctl', words);
  return {
    name: 'systemd',
    file,
    async install() {
      const isNew = await writeIfChanged(file, systemdUnit(place), 0o644);
      if (isNew) await systemctl('daemon-reload');
      await systemctl('enable', '--quiet', UNIT_NAME);
      return isNew;
    },
    restart: async () => void (await systemctl('restart', UNIT_NAME)),
    start: async () => void (await systemctl('start', UNIT_NAME)),
    stop: async () => void (await systemctl('stop', UNIT_NAME)),
    async state() {
      if (!(await exists(file))) return 'not_installed';
      return systemctl('is-active', '--quiet', UNIT_NAME).then(
        () => 'running',
        () => 'stopped',
      );
    },
    async remove() {
      if (!(await exists(file))) return;
      await systemctl('disable', '--quiet', '--now', UNIT_NAME);
      await rm(file, { force: true });
      await systemctl('daemon-reload');
    },
  };
}

function openrc({ place, run }: Parts): ServiceManager {
  const file = path.posix.join(place.prefix, '/etc/init.d', OPENRC_SERVICE);
  const service = (verb: string) => run('rc-service', [OPENRC_SERVICE, verb]);
  const isRunning = () =>
    service('status').then(
      () => true,
      () => false,
    );
  return {
    name: 'OpenRC',
    file,
    async install() {
      const isNew = await writeIfChanged(file, openrcScript(place), 0o755);
      await run('rc-update', ['--quiet', 'add', OPENRC_SERVICE, 'default']);
      return isNew;
    },
    restart: async () => void (await service('restart')),
    async start() {
      // `start` does nothing for a service whose supervise-daemon was killed.
      if (!(await isRunning())) await service('restart');
    },
    stop: async () => void (await service('stop')),
    async state() {
      if (!(await exists(file))) return 'not_installed';
      return (await isRunning()) ? 'running' : 'stopped';
    },
    async remove() {
      if (!(await exists(file))) return;
      await service('stop');
      // By their names, because `--all` fails for each runlevel that the service is not in.
      const runlevels = await runlevelsWith(path.posix.join(place.prefix, '/etc/runlevels'));
      if (runlevels.length > 0) await run('rc-update', ['--quiet', 'delete', OPENRC_SERVICE, ...runlevels]);
      await rm(file, { force: true });
    },
  };
}

async function runlevelsWith(folder: string): Promise<string[]> {
  const found: string[] = [];
  for (const runlevel of await readdir(folder).catch(() => [])) {
    if (await exists(path.posix.join(folder, runlevel, OPENRC_SERVICE))) found.push(runlevel);
  }
  return found.toSorted();
}

function launchd({ place, run }: Parts): ServiceManager {
  const file = path.posix.join(place.prefix, '/Library/LaunchDaemons', `${JOB_LABEL}.plist`);
  const job = `system/${JOB_LABEL}`;
  const isLoaded = () =>
    run('launchctl', ['print', job]).then(
      () => true,
      () => false,
    );
  const load = async () => {
    if (!(await isLoaded())) await run('launchctl', ['bootstrap', 'system', file]);
  };
  const unload = async () => {
    if (await isLoaded()) await run('launchctl', ['bootout', job]);
  };
  return {
    name: 'launchd',
    file,
    async install() {
      const isNew = await writeIfChanged(file, launchdJob(place), 0o644);
      if (isNew) await unload();
      return isNew;
    },
    async restart() {
      await load();
      await run('launchctl', ['kickstart', '-k', job]);
    },
    start: load,
    stop: unload,
    async state() {
      if (!(await exists(file))) return 'not_installed';
      return (await isLoaded()) ? 'running' : 'stopped';
    },
    async remove() {
      await unload();
      await rm(file, { force: true });
    },
  };
}

function taskScheduler({ place, run, program }: Parts & { program: string }): ServiceManager {
  const schtasks = (...words: string[]) => run('schtasks', words);
  const end = () => schtasks('/End', '/TN', TASK_NAME).catch(() => '');
  const state = async (): Promise<ServiceState> => {
    // `schtasks /Query` writes the state in the language of the machine.
    const words = ['-NoProfile', '-NonInteractive', '-Command', TASK_STATE];
    const said = await run('powershell', words).catch(() => '');
    if (said.trim() === '') return 'not_installed';
    return said.trim() === 'Running' ? 'running' : 'stopped';
  };
  const start = async () => {
    await schtasks('/Change', '/TN', TASK_NAME, '/ENABLE');
    await schtasks('/Run', '/TN', TASK_NAME);
  };
  return {
    name: 'Task Scheduler',
    file: TASK_NAME,
    state,
    start,
    async install() {
      const file = path.join(tmpdir(), `muster-agent-${randomBytes(8).toString('hex')}.xml`);
      await writeFile(file, `\uFEFF${scheduledTask(place, program)}`, { encoding: 'utf16le', flag: 'wx' });
      try {
        await schtasks('/Create', '/TN', TASK_NAME, '/XML', file, '/F');
      } finally {
        await rm(file, { force: true });
      }
      return true;
    },
    async restart() {
      await end();
      await start();
    },
    async stop() {
      // Disable it first: its triggers would start it again within minutes.
      await schtasks('/Change', '/TN', TASK_NAME, '/DISABLE');
      await end();
    },
    async remove() {
      if ((await state()) === 'not_installed') return;
      await end();
      await schtasks('/Delete', '/TN', TASK_NAME, '/F');
    },
  };
}

const TASK_STATE = String.raw`(Get-ScheduledTask -TaskPath '\Muster\' -TaskName 'Agent' -ErrorAction Stop).State.ToString()`;

const exists = (file: string) =>
  access(file).then(
    () => true,
    () => false,
  );

/**
 * Copies an executable to the place of its version and makes it the current one. Doing it again changes nothing.
 * @returns whether anything changed
 */
export async function installProgram(
  programs: string,
  executable: string,
  version: string,
): Promise<boolean> {
  const file = programFile(programs, 'watchdog', version);
  const isThere = await isSameFile(executable, file);
  if (!isThere) await copyProgram(executable, file);
  if ((await currentRelease(programs, 'watchdog')) === version) {
    // An earlier release has installed it without the stable path.
    if (process.platform === 'win32') await placeStableProgram(programs, version);
    return !isThere;
  }
  await chooseRelease(programs, 'watchdog', version);
  return true;
}

/** Writes under another name first: the file of a running program is replaced and never written to. */
async function copyProgram(from: string, to: string): Promise<void> {
  await mkdir(path.dirname(to), { recursive: true, mode: 0o755 });
  const draft = `${to}.${randomBytes(8).toString('hex')}.draft`;
  try {
    await copyFile(from, draft);
    await chmod(draft, 0o755);
    const handle = await open(draft, 'r+');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, to);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(path.dirname(to));
}

async function isSameFile(one: string, other: string): Promise<boolean> {
  const sizes = await Promise.all(
    [one, other].map(async (file) =>
      lstat(file).then(
        ({ size }) => size,
        () => -1,
      ),
    ),
  );
  if (sizes[0] !== sizes[1]) return false;
  const [first, second] = await Promise.all([one, other].map(sha256Of));
  return first === second;
}

/** The command `muster-agent` for the shell, with the folder of this installation. Pure. */
export function commandScript(place: ServicePlace): string {
  return `#!/bin/sh
# Written by muster-agent service install.
if [ -z "\${MUSTER_AGENT_DIR-}" ]; then
  MUSTER_AGENT_DIR=${shellWord(place.dataDir)}
fi
export MUSTER_AGENT_DIR
${place.prefix === '' ? '' : `MUSTER_PREFIX=${shellWord(place.prefix)}\nexport MUSTER_PREFIX\n`}exec ${shellWord(linkedProgram(place))} "$@"
`;
}

/** @returns whether anything changed */
export async function writeIfChanged(file: string, content: string, mode: number): Promise<boolean> {
  if ((await readFile(file, 'utf8').catch(() => undefined)) === content) return false;
  await mkdir(path.dirname(file), { recursive: true });
  const draft = `${file}.${randomBytes(8).toString('hex')}.draft`;
  await writeFile(draft, content, { mode, flag: 'wx' });
  await chmod(draft, mode);
  await rename(draft, file);
  return true;
}
