import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';

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
