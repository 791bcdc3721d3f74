import type { Command } from 'commander';
import { clock, type Timer } from '../../clock.ts';
import { type ConnectionState, HTTP_ONLY } from '../core/connection-options.ts';
import { loadCredentials, NOT_ENROLLED, type Credentials, isSameDevice } from '../core/settings.ts';
import { defaultDataDir } from '../os/releases/layout.ts';
import { openWatchdogLink } from '../core/watchdog-link.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { AGENT_VERSION } from '../core/version.ts';
import { DiagnosticLog } from '../os/diagnostic-log.ts';
import { LockHeldError, takeLock, type FolderLock } from '../os/files/folder-lock.ts';
import { removeOldDrafts } from '../os/files/private-file.ts';
import { type DeviceSession, type SessionOptions, startSession } from '../device-session.ts';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { INSECURE_REFUSAL, INSECURE_WARNING } from '../core/server-call.ts';
import { isSecureServer } from '../os/network/network.ts';
import { Fleet } from '../simulator/fleet.ts';
import { parseServer } from './enroll.ts';

export function addRun(program: Command): void {
  program
    .command('run')
    .description('stay connected to the server, in the foreground')
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--json', 'print one JSON object per line', false)
    .option('--parent-watch', 'stop when the parent process ends', false)
    .action(async (options: { dataDir: string; json: boolean; parentWatch: boolean }) => {
      const { json, parentWatch } = options;
      const dataDir = await openPrivateFolder(options.dataDir);
      const credentials = await loadCredentials(dataDir);
      if (credentials === undefined) throw Object.assign(new Error(NOT_ENROLLED), { exitCode: 2 });
      const print = json ? printJson : printText;
      const warn = json ? warnJson : warnText;
      // Before the agent has started, nothing needs a clean stop.
      let stop = (): void => process.exit(0);
      const watchdog = await openWatchdogLink(() => stop());
      const agent = await runAgent({
        dataDir,
        credentials,
        onState: changesOnly(print),
        warn,
        ...(watchdog === undefined ? {} : { watchdog }),
      });
      stop = onShutdown({ parentWatch }, () => agent.stop());
    });
}

/** Drops repeated states: those that differ only in the time of the last heartbeat. */
function changesOnly(print: (state: ConnectionState) => void): (state: ConnectionState) => void {
  let last = '';
  return (state) => {
    const { lastHeartbeatAt: _changesEachTime, ...kept } = { lastHeartbeatAt: null, ...state };
    const text = JSON.stringify(kept);
    if (text !== last) print(state);
    last = text;
  };
}

function printJson(state: ConnectionState): void {
  console.log(JSON.stringify({ at: clock.date().toISOString(), event: 'agent.state', ...state }));
}

function warnJson(message: string): void {
  console.log(JSON.stringify({ at: clock.date().toISOString(), event: 'agent.warning', message }));
}

/** Without the formats of languages, whose data would stay in memory for ever. */
function timeOfDay(): string {
  const now = clock.date();
  return [now.getHours(), now.getMinutes(), now.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':');
}

function warnText(message: string): void {
  console.error(`${timeOfDay()}  ${message}`);
}

function printText(state: ConnectionState): void {
  const time = timeOfDay();
  if (state.state === 'waiting') {
    const seconds = Math.max(0, Math.round((Date.parse(state.nextTryAt) - clock.now()) / 1000));
    console.log(`${time}  ${state.reason} The next attempt is in ${seconds} s.`);
  } else if (state.state === 'http_only') {
    console.log(`${time}  ${HTTP_ONLY}. ${state.reason}`);
  } else {
    console.log(`${time}  ${state.state}`);
  }
}

const PARENT_CHECK_MS = 1000;

/**
 * Calls `stop` once and then exits: at SIGINT or SIGTERM, with `parentWatch` when the parent process has ended, and when
 * the returned function is called.
 */
function onShutdown(options: { parentWatch: boolean }, stop: () => Promise<void>): () => void {
  let isStopping = false;
  const stopOnce = () => {
    if (isStopping) return;
    isStopping = true;
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`${String(error)}\n`);
        process.exit(1);
      },
    );
  };
  process.on('SIGINT', stopOnce);
  process.on('SIGTERM', stopOnce);
  if (!options.parentWatch) return stopOnce;
  const parent = process.ppid;
  clock
    .setInterval(() => {
      if (process.ppid !== parent) stopOnce();
    }, PARENT_CHECK_MS)
    .unref();
  return stopOnce;
}

interface RunningAgent {
  stop(): Promise<void>;
}

/** How often a running agent checks whether this machine was enrolled as another device. */
const ENROLLMENT_CHECK_MS = 2000;

/**
 * Runs the agent of this machine; only one can run in a folder. If the machine is enrolled as another device meanwhile,
 * the session of the former device is stopped and one for the new device is started, with its own journal.
 */
async function runAgent(options: Omit<SessionOptions, 'log'>): Promise<RunningAgent> {
  const { dataDir } = options;
  const lock = await lockFolder(dataDir);
  // Only the process that holds the lock writes the log.
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

const Keys = z
  .array(
    z.object({
      key: z.string(),
      share: z.number().positive(),
      hosts: z.object({ site: z.string(), places: z.tuple([z.string()], z.string()) }).optional(),
    }),
  )
  .min(1);

export function addSimulate(program: Command): void {
  program
    .command('simulate')
    .description('run many simulated machines on the real protocol, for demos and load tests')
    .requiredOption('--server <url>', 'address of the server', parseServer)
    .requiredOption('--keys-file <file>', 'JSON file: [{ "key": "menr_…", "share": 40 }, …]')
    .requiredOption('--devices <number>', 'how many machines')
    .requiredOption('--data-dir <folder>', 'folder of the fleet')
    .option('--eventful', 'let things happen: failing disks, lost connections, upgrades', false)
    .option('--insecure-http', 'for laboratories: allow an unencrypted connection', false)
    .option('--parent-watch', 'stop when the parent process ends', false)
    .action(
      async (options: {
        server: string;
        keysFile: string;
        devices: string;
        dataDir: string;
        eventful: boolean;
        insecureHttp: boolean;
        parentWatch: boolean;
      }) => {
        if (!isSecureServer(options.server)) {
          if (!options.insecureHttp) throw new Error(INSECURE_REFUSAL);
          console.error(INSECURE_WARNING);
        }
        const keys = Keys.parse(JSON.parse(await readFile(options.keysFile, 'utf8')));
        const devices = z.coerce.number().int().min(1).max(100_000).parse(options.devices);
        const fleet = new Fleet({
          server: options.server,
          keys,
          devices,
          isEventful: options.eventful,
          dataDir: await openPrivateFolder(options.dataDir),
          onEvent: (event) => console.log(JSON.stringify(event)),
        });
        onShutdown(options, async () => fleet.stop());
        await fleet.start();
      },
    );
}
