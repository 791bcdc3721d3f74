import { clock, type Timer } from '../../clock.ts';
import { type Credentials, isSameDevice, loadCredentials } from '../core/enrollment/credentials.ts';
import { type DeviceSession, type SessionOptions, startSession } from './device-session.ts';
import { LockHeldError, takeLock, type FolderLock } from '../os/files/folder-lock.ts';
import { AGENT_VERSION } from '../core/version.ts';
import { DiagnosticLog } from '../os/diagnostics/diagnostic-log.ts';
import { removeOldDrafts } from '../os/files/private-file.ts';

export interface RunningAgent {
  stop(): Promise<void>;
}

/** How often a running agent checks whether this machine was enrolled as another device. */
const ENROLLMENT_CHECK_MS = 2000;

/**
 * Runs the agent of this machine; only one can run in a folder. If the machine is enrolled as another device meanwhile,
 * the session of the former device is stopped and one for the new device is started, with its own journal.
 */
export async function runAgent(options: Omit<SessionOptions, 'log'>): Promise<RunningAgent> {
  const { dataDir } = options;
  const lock = await lockFolder(dataDir);
  // Only the process that has the lock writes the log.
  const log = new DiagnosticLog({ dataDir, writer: 'agent', version: AGENT_VERSION });
  const logCrash = (error: Error) => log.write('error', 'agent', error.stack ?? String(error));
  process.on('uncaughtExceptionMonitor', logCrash);
  const warn = (message: string) => {
    options.warn(message);
    log.write('warn', 'agent', message);
  };
  await removeOldDrafts(dataDir);
  let credentials = options.credentials;
  let session: DeviceSession | undefined;
  try {
    session = await startSession({ ...options, log });
  } catch (error) {
    log.write('error', 'agent', `The agent does not start: ${String(error)}`);
    process.off('uncaughtExceptionMonitor', logCrash);
    await lock.release();
    throw error;
  }

  const stop = new AbortController();
  let timer: Timer | undefined;
  let turn: Promise<void> = Promise.resolve();

  async function restartAs(next: Credentials): Promise<void> {
    warn(`This machine was enrolled as another device: ${next.deviceId} at ${next.server}.`);
    await session?.stop();
    session = undefined;
    credentials = next;
    session = await startSession({ ...options, credentials, log });
  }
  function checkLater(): void {
    timer = clock
      .setTimeout(() => {
        turn = loadCredentials(dataDir)
          .then(async (kept) => {
            if (stop.signal.aborted || kept === undefined) return;
            if (session === undefined || !isSameDevice(kept, credentials)) await restartAs(kept);
          })
          .catch((error: unknown) => warnOnce(String(error)))
          .then(() => {
            if (!stop.signal.aborted) checkLater();
          });
      }, ENROLLMENT_CHECK_MS)
      .unref();
  }
  let lastWarning = '';
  function warnOnce(message: string): void {
    if (message !== lastWarning) warn(message);
    lastWarning = message;
  }

  checkLater();
  return {
    async stop() {
      stop.abort();
      clock.clear(timer);
      await turn;
      await session?.stop();
      process.off('uncaughtExceptionMonitor', logCrash);
      await lock.release();
    },
  };
}

async function lockFolder(dataDir: string): Promise<FolderLock> {
  try {
    return await takeLock(dataDir, 'agent');
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    const message = `An agent for this folder is already running (process ${error.holder.pid}).`;
    throw new Error(message, { cause: error });
  }
}
