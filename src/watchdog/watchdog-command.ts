import { execFile } from 'node:child_process';
import { writeSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { DiagnosticLog } from '../agent/os/diagnostic-log.ts';
import { type FolderLock, LockHeldError, takeLock } from '../agent/os/files/folder-lock.ts';
import { openPrivateFolder } from '../agent/os/files/private-folder.ts';
import { defaultDataDir, defaultProgramsDir } from '../agent/os/releases/layout.ts';
import { keepReserve } from '../agent/os/releases/upgrade-files.ts';
import { openParentChannel } from '../agent/os/supervision.ts';
import { clock } from '../clock.ts';
import { isSupervised } from './guard.ts';
import { Reporter } from './server-report.ts';
import { watchdogSettings } from './settings.ts';
import { WATCHDOG_VERSION } from './version.ts';
import { type Log, Watchdog } from './watchdog.ts';

const USAGE = `usage: muster-agent watchdog run [--data-dir DIR] [--programs DIR]
       muster-agent watchdog version

run      keep the agent of this machine running, and upgrade it
version  print the release of this executable`;

const OPTIONS = {
  'data-dir': { type: 'string' },
  programs: { type: 'string' },
  /** Option with which a watchdog starts its successor. */
  trial: { type: 'boolean' },
} as const;

export async function runWatchdogCommand(words: readonly string[]): Promise<void> {
  const [verb, ...rest] = words;
  if (verb === 'version') {
    console.log(WATCHDOG_VERSION);
  } else if (verb === 'run') {
    const { values } = parseArgs({ args: rest, options: OPTIONS, strict: true });
    await run(
      values['data-dir'] ?? defaultDataDir(),
      values.programs ?? defaultProgramsDir(),
      values.trial === true,
    );
  } else {
    console.error(USAGE);
    process.exitCode = 2;
  }
}

async function run(folder: string, programs: string, isOnTrial: boolean): Promise<void> {
  if (isOnTrial !== isSupervised) {
    console.error(
      'A watchdog starts its successor with --trial, and nothing else starts a watchdog below a watchdog.',
    );
    process.exitCode = 2;
    return;
  }
  // A console that is gone or never existed must not end the watchdog.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop.abort());
  const channel = openParentChannel({
    message: ({ type }) => {
      if (type === 'stop') stop.abort();
    },
    closed: () => stop.abort(),
  });
  const dataDir = await openPrivateFolder(folder);
  await keepReserve(dataDir);
  const diagnostics = new DiagnosticLog({
    dataDir,
    writer: isOnTrial ? 'watchdog-trial' : 'watchdog',
    version: WATCHDOG_VERSION,
  });
  const log: Log = (message, level = 'info') => {
    console.log(`${clock.date().toISOString()} watchdog: ${message}`);
    diagnostics.write(level, 'watchdog', message);
  };
  process.on('uncaughtExceptionMonitor', (error) => log(error.stack ?? String(error), 'error'));
  const settings = await watchdogSettings(dataDir, (message) => log(message, 'warn'));
  const manager = openServiceManager();
  const reporter = new Reporter(dataDir, settings.reportEveryMs);
  const watchdog = new Watchdog({
    programs,
    dataDir,
    settings,
    reporter,
    log,
    takeLock: () => lockFolder(dataDir),
    ...(channel === undefined ? {} : { referee: (message) => channel.send(message) }),
  });
  channel?.send({ type: 'hello', component: 'watchdog', version: WATCHDOG_VERSION });
  log(`The watchdog ${WATCHDOG_VERSION} has started.`);
  manager.ready();
  try {
    await watchdog.run(stop.signal);
    log(`The watchdog ${WATCHDOG_VERSION} has ended.`);
  } finally {
    manager.stopping();
    manager.close();
    reporter.stop();
    if (process.connected) process.disconnect();
  }
}

const LOCK_WAIT_MS = 15_000;
const LOCK_POLL_MS = 100;

/** A watchdog that was just stopped may need a moment to release the lock. */
async function lockFolder(dataDir: string): Promise<FolderLock> {
  const until = clock.monotonic() + LOCK_WAIT_MS;
  for (;;) {
    try {
      return await takeLock(dataDir, 'watchdog');
    } catch (error) {
      if (!(error instanceof LockHeldError)) throw error;
      if (clock.monotonic() > until) {
        const message = `A watchdog for this folder is already running: ${error.message}`;
        throw new Error(message, { cause: error });
      }
      await clock.sleep(LOCK_POLL_MS);
    }
  }
}

/** Notifications to systemd, which restarts a silent service. Other service managers expect none. */
interface ServiceManager {
  ready(): void;
  stopping(): void;
  /** Stops the notifications. */
  close(): void;
}

const FD_NAME = 'muster-notify';
const FIRST_FD = 3;
const NOTIFY_MS = 10_000;

/** The event loop sends the notifications, so a hanging watchdog is restarted. */
function openServiceManager(env: NodeJS.ProcessEnv = process.env): ServiceManager {
  const say = sayer(env);
  const everyMs = aliveEveryMs(env);
  const timer =
    say === undefined || everyMs === undefined
      ? undefined
      : clock.setInterval(() => say('WATCHDOG=1'), everyMs);
  timer?.unref();
  return {
    ready: () => say?.('READY=1'),
    stopping: () => say?.('STOPPING=1'),
    close: () => clock.clear(timer),
  };
}

function sayer(env: NodeJS.ProcessEnv): ((text: string) => void) | undefined {
  const fd = inheritedSocket(env);
  if (fd !== undefined) {
    return (text) => {
      try {
        writeSync(fd, `${text}\n`);
      } catch {
        // The service manager restarts a service without notifications.
      }
    };
  }
  const socket = env['NOTIFY_SOCKET'];
  if (socket === undefined || socket === '') return undefined;
  // Node has no Unix datagram sockets, so the program `systemd-notify` sends with the process id of its parent.
  return (text) => {
    execFile(
      'systemd-notify',
      [text],
      { env: { ...env, NOTIFY_SOCKET: socket }, timeout: NOTIFY_MS },
      () => {},
    );
  };
}

/** The socket that `OpenFile=` of systemd 253 and later passes on. Pure. */
export function inheritedSocket(env: NodeJS.ProcessEnv, pid = process.pid): number | undefined {
  if (Number(env['LISTEN_PID']) !== pid) return undefined;
  const at = (env['LISTEN_FDNAMES'] ?? '').split(':').indexOf(FD_NAME);
  return at === -1 || at >= Number(env['LISTEN_FDS'] ?? 0) ? undefined : FIRST_FD + at;
}

/** A third of systemd's watchdog timeout. Pure. */
export function aliveEveryMs(env: NodeJS.ProcessEnv, pid = process.pid): number | undefined {
  const owner = env['WATCHDOG_PID'];
  if (owner !== undefined && Number(owner) !== pid) return undefined;
  const ms = Number(env['WATCHDOG_USEC']) / 1000 / 3;
  return ms > 0 && ms < 2 ** 31 ? ms : undefined;
}
