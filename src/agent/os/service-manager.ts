import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { type RunSystemProgram, systemProgram } from '../processes/system-program.ts';
import { writeIfChanged } from './install-program.ts';
import { JOB_LABEL, launchdJob } from './launchd-job.ts';
import { scheduledTask, TASK_NAME } from './scheduled-task.ts';
import type { ServicePlace } from './service-place.ts';
import { systemdUnit, UNIT_NAME } from './systemd-unit.ts';

export type ServiceState = 'running' | 'stopped' | 'not_installed';

/** What starts the agent with the machine, and again when it ends. */
export interface ServiceManager {
  name: string;
  /** Where the service is described. */
  file: string;
  /** Describes the service to the manager. Returns whether anything changed. */
  install(): Promise<boolean>;
  /** Starts it, and again where it runs, so that a new program is used. */
  restart(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
  state(): Promise<ServiceState>;
  /** Stops the service and removes it. */
  remove(): Promise<void>;
}

/** Longer than a service may take to stop. */
const STEP_MS = 150_000;

/** Runs the program of a service manager, with its own message where it fails. */
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

/** `undefined` where nothing on this machine starts services, as in most containers. */
export async function serviceManager(
  parts: Parts & { program: string; platform?: NodeJS.Platform },
): Promise<ServiceManager | undefined> {
  switch (parts.platform ?? process.platform) {
    case 'win32':
      return taskScheduler(parts);
    case 'darwin':
      return launchd(parts);
    default:
      return (await exists(path.join(parts.place.prefix, '/run/systemd/system')))
        ? systemd(parts)
        : undefined;
  }
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
      // Its triggers would start it again within minutes.
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
