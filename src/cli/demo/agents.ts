import { hostname } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import { type DemoClient, readJson, type DemoKey } from './data.ts';
import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';

/** The agents of the demo: real programs on the real protocol, each a separate process. */

interface Parts {
  url: string;
  dataDir: string;
  /** Called with each program as soon as it runs, so that it can be stopped whatever fails later. */
  started: (child: ChildProgram) => void;
}

const FLEET_TIMEOUT_MS = 120_000;
const AGENT_TIMEOUT_MS = 30_000;

export async function startDemoFleet(options: Parts & { keysFile: string; devices: number }): Promise<void> {
  const { url, dataDir, keysFile, devices } = options;
  const logFile = path.join(dataDir, 'fleet.log');
  const connected = signal();
  const fleet = startAgentProgram(
    [
      'simulate',
      '--server',
      url,
      '--keys-file',
      keysFile,
      '--devices',
      String(devices),
      '--data-dir',
      path.join(dataDir, 'fleet'),
      '--eventful',
      '--parent-watch',
    ],
    {
      logFile,
      onLine: (line) => {
        if (line.includes('"fleet.connected"')) connected.raise();
      },
    },
  );
  options.started(fleet);
  await within(
    FLEET_TIMEOUT_MS,
    connected.raised,
    fleet,
    `The simulated agents did not connect; see ${logFile}`,
  );
}

/** The device of this machine, and one of its logs that has entries. */
export interface DemoMachine {
  deviceId: string;
  hostname: string;
  logName: string;
}

const Credentials = z.object({ server: z.string(), deviceId: z.string() });
const Logs = z.object({
  data: z.array(z.object({ name: z.string(), recordCount: z.number(), lastWriteTime: z.string() })),
});
const DeviceStatus = z.object({ status: z.string() });

export async function startThisMachine(
  options: Parts & { keys: DemoKey[]; client: DemoClient },
): Promise<DemoMachine> {
  const { url, dataDir, client } = options;
  const agentDir = path.join(dataDir, 'agent');
  const logFile = path.join(dataDir, 'agent.log');
  const deviceId = await enrolled({ url, agentDir, logFile, keys: options.keys });
  const agent = startAgentProgram(['run', '--data-dir', agentDir, '--json', '--parent-watch'], { logFile });
  options.started(agent);
  const online = async () => {
    while ((await client.get(`/devices/${deviceId}`, DeviceStatus)).status !== 'online') await pause(100);
  };
  await within(
    AGENT_TIMEOUT_MS,
    online(),
    agent,
    `The agent of this machine did not connect; see ${logFile}`,
  );
  const { data: logs } = await client.get(`/system-tools/devices/${deviceId}/eventlogs`, Logs);
  return { deviceId, hostname: hostname(), logName: interestingLog(logs) };
}

/** Enrolls over the public API, once for each server address. The same machine stays the same device. */
async function enrolled(options: {
  url: string;
  agentDir: string;
  logFile: string;
  keys: DemoKey[];
}): Promise<string> {
  const { url, agentDir, logFile } = options;
  const file = path.join(agentDir, 'credentials.json');
  const known = Credentials.safeParse(await readJson(file));
  if (known.success && known.data.server === url) return known.data.deviceId;
  const [key] = options.keys;
  if (key === undefined) throw new Error('The demo has no site to enroll this machine in.');
  const enrolling = startAgentProgram(['enroll', '--server', url, '--key', key.key, '--data-dir', agentDir], {
    logFile,
  });
  const code = await enrolling.ended;
  if (code !== 0) throw new Error(`This machine could not be enrolled (exit code ${code}); see ${logFile}`);
  return Credentials.parse(await readJson(file)).deviceId;
}

const PREFERRED_LOGS = ['system', 'syslog', 'messages', 'dpkg.log'];

/** A log that has useful entries on most machines, or the one that was written last. */
function interestingLog(logs: z.infer<typeof Logs>['data']): string {
  const withEntries = logs
    .filter((log) => log.recordCount > 0)
    .sort((a, b) => (a.lastWriteTime < b.lastWriteTime ? 1 : -1));
  const known = PREFERRED_LOGS.map((name) => withEntries.find((log) => log.name.toLowerCase() === name)).find(
    (log) => log !== undefined,
  );
  return (known ?? withEntries[0])?.name ?? 'System';
}

function signal(): { raise: () => void; raised: Promise<void> } {
  let raise = () => {};
  const raised = new Promise<void>((resolve) => {
    raise = resolve;
  });
  return { raise, raised };
}

const pause = (ms: number) => clock.sleep(ms);

/** Waits for the result of a program. Rejects when the program ends before it, or after `ms`. */
async function within(
  ms: number,
  result: Promise<void>,
  child: ChildProgram,
  failure: string,
): Promise<void> {
  let timer: Timer | undefined;
  const failed = new Promise<never>((_resolve, reject) => {
    timer = clock.setTimeout(() => reject(new Error(failure)), ms);
    void child.ended.then(() => reject(new Error(failure)));
  });
  try {
    await Promise.race([result, failed]);
  } finally {
    clock.clear(timer);
  }
}

/** Starts the agent as a separate process, as on a managed machine. */

const HERE = path.dirname(fileURLToPath(import.meta.url));
const RUN = path.join(HERE, '..', '..', 'run.mjs');
const AGENT = path.join(HERE, '..', '..', 'agent', 'main.ts');
const END_MS = 5000;

export interface ChildProgram {
  /** Resolves with the exit code when the process has ended. */
  ended: Promise<number>;
  /** Asks the process to end, and kills it after five seconds. */
  stop(): Promise<void>;
}

/** Starts the agent. Its output goes to `logFile`, and each line of its standard output to `onLine`. */
function startAgentProgram(
  args: string[],
  options: { logFile: string; onLine?: (line: string) => void },
): ChildProgram {
  const child = spawn(process.execPath, [RUN, AGENT, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const log = createWriteStream(options.logFile, { flags: 'a', mode: 0o600 });
  for (const stream of [child.stdout, child.stderr]) {
    readline.createInterface({ input: stream }).on('line', (line) => {
      log.write(`${line}\n`);
      if (stream === child.stdout) options.onLine?.(line);
    });
  }
  const ended = new Promise<number>((resolve) => {
    child.once('error', () => resolve(1));
    child.once('exit', (code) => {
      log.end();
      resolve(code ?? 1);
    });
  });
  return { ended, stop: () => stop(child, ended) };
}

async function stop(child: ChildProcess, ended: Promise<number>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  const force = clock.setTimeout(() => child.kill('SIGKILL'), END_MS);
  await ended;
  clock.clear(force);
}
