import { parseArgs } from 'node:util';
import { clock } from '../clock.ts';
import { DiagnosticLog } from '../agent/os/diagnostics/diagnostic-log.ts';
import { type FolderLock, LockHeldError, takeLock } from '../agent/os/files/folder-lock.ts';
import { openPrivateFolder } from '../agent/os/files/private-folder.ts';
import { defaultDataDir } from '../agent/os/installation/data-folder.ts';
import { defaultProgramsDir } from '../agent/os/installation/layout.ts';
import { openParentChannel } from '../agent/os/supervision/parent-channel.ts';
import { keepReserve } from '../agent/os/upgrades/upgrade-files.ts';
import { isSupervised } from './launcher/guard.ts';
import { Reporter } from './service/reporter.ts';
import { openServiceManager } from './service/service-manager.ts';
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
  /** The watchdog that is to be replaced starts its successor so. */
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
  // A console that is gone, or was never there, must not end the watchdog.
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

/** A watchdog that has just been stopped may need a moment until it has released the lock. */
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
