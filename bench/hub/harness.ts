import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { TestDatabase } from '../../test/support/test-postgres.ts';
import type { MeasuredCommands } from './servers/measured.ts';

/** Starts the processes of a figure: the servers on one core, everything that loads them on the other. */

export const SERVER_CORE = '0';
export const LOAD_CORE = '1';
export const ANY_CORE = `0-${availableParallelism() - 1}`;

const TASKSET = '/usr/bin/taskset';
const canPin = existsSync(TASKSET) && availableParallelism() > 1;

/** Pins this process to these cores, including everything it starts from now on, such as Postgres. */
export function stayOn(cores: string): void {
  if (canPin) execFileSync(TASKSET, ['-cp', cores, String(process.pid)], { stdio: 'ignore' });
}

export interface OwnProcess {
  pid: number;
  /** Its first message: that it is ready, or its URL. */
  greeting: string;
  /** Sends a command and waits for its response. */
  call(command: string, ask: unknown): Promise<unknown>;
  stop(): Promise<void>;
}

/** @param script  relative to this folder */
export async function startProcess(
  script: string,
  options: { cores: string; nodeFlags?: string[]; env?: Record<string, string> },
): Promise<OwnProcess> {
  const run = fileURLToPath(new URL('../../src/run.mjs', import.meta.url));
  const words = [
    process.execPath,
    ...(options.nodeFlags ?? []),
    run,
    fileURLToPath(new URL(script, import.meta.url)),
  ];
  const [command = '', ...args] = canPin ? [TASKSET, '-c', options.cores, ...words] : words;
  const child = spawn(command, args, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, ...options.env },
  });
  const greeting = await Promise.race([
    once(child, 'message').then(([said]) => String(said)),
    once(child, 'exit').then(([code]) => {
      throw new Error(`${script} ended with ${code} before it was ready`);
    }),
  ]);
  return {
    pid: child.pid ?? 0,
    greeting,
    call: callsOver(child, script),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      const impatient = setTimeout(() => child.kill('SIGKILL'), 20_000);
      child.disconnect();
      await ended;
      clearTimeout(impatient);
    },
  };
}

type Reply = { number: number } & ({ answer: unknown } | { error: string });

function callsOver(child: ChildProcess, script: string): OwnProcess['call'] {
  const waiting = new Map<number, { resolve: (answer: unknown) => void; reject: (error: Error) => void }>();
  let count = 0;
  child.on('message', (reply: Reply | string) => {
    if (typeof reply === 'string') return;
    const waiter = waiting.get(reply.number);
    waiting.delete(reply.number);
    if ('error' in reply) waiter?.reject(new Error(`${script}: ${reply.error}`));
    else waiter?.resolve(reply.answer);
  });
  child.once('exit', (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`${script} ended with ${code}`));
  });
  return (command, ask) =>
    new Promise((resolve, reject) => {
      const number = ++count;
      waiting.set(number, { resolve, reject });
      child.send({ number, command, ask });
    });
}

/** One measured value with its target. A ratio compares two measurements of the same run. */
export interface Result {
  what: string;
  value: number;
  unit: 'ratio' | 'ms' | 'KiB' | 'percent' | 'devices' | 'queries';
  better: 'higher' | 'lower';
  target: number;
  stretchTarget?: number;
  /** The measurements behind the value, each named with its unit, such as `plainSocketIoPerSecond`. */
  measured: Readonly<Record<string, number>>;
}

/** A row of the table in `docs/performance.md`. */
export interface Figure {
  number: number;
  title: string;
  measure(): Promise<Result[]>;
}

export function verdict({ value, better, target, stretchTarget }: Result): 'stretch' | 'reached' | 'missed' {
  const isWithin = (bound: number) => (better === 'higher' ? value >= bound : value <= bound);
  if (stretchTarget !== undefined && isWithin(stretchTarget)) return 'stretch';
  return isWithin(target) ? 'reached' : 'missed';
}

/** The value below which the given share of all values lies; 0 if there are none. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

export function sortedCopy(values: readonly number[]): Float64Array {
  return Float64Array.from(values).sort();
}

export function median(values: readonly number[]): number {
  return percentile(sortedCopy(values), 0.5);
}

export const rounded = (value: number, digits = 2): number => Number(value.toFixed(digits));

/** The total resident memory of these processes in KiB, as Linux reports it. */
export function residentKiB(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const [, size] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return sum + Number(size ?? 0);
  }, 0);
}

/** Linux counts CPU time in hundredths of a second. */
const TICK_MICROS = 10_000;

/** User and system CPU time of a process since it started, and that of its children that have ended, in microseconds. */
export function cpuMicrosOf(pid: number): number {
  // From the 14th field on, counted after the process name, which may contain spaces.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MICROS;
}

export interface ServerProcess {
  pid: number;
  url: string;
  port: number;
  measure<C extends keyof MeasuredCommands>(command: C): Promise<MeasuredCommands[C]>;
  stop(): Promise<void>;
}

interface ServerSettings {
  cores?: string;
  nodeFlags?: string[];
  env?: Record<string, string>;
}

export async function startMeasured(
  script: 'muster' | 'plain-socket-io' | 'raw-ws',
  { cores = SERVER_CORE, nodeFlags = ['--expose-gc'], env = {} }: ServerSettings = {},
): Promise<ServerProcess> {
  const child = await startProcess(`servers/${script}.ts`, { cores, nodeFlags, env });
  return {
    pid: child.pid,
    url: child.greeting,
    port: Number(new URL(child.greeting).port),
    // The table defines the response to each command.
    measure: (command) => child.call(command, {}) as Promise<never>,
    stop: () => child.stop(),
  };
}

export function onDatabase({ ownerUrl, appUrl }: TestDatabase): Record<string, string> {
  return { BENCH_OWNER_URL: ownerUrl, BENCH_APP_URL: appUrl };
}

/** Disables admission control, for figures that do not measure it. */
export const LIFTED_ADMISSION = { BENCH_ADMIT_PER_SECOND: '100000' };
