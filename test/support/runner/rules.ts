import childProcess, { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { Server } from 'node:net';
import { availableParallelism, loadavg } from 'node:os';
import timersPromises from 'node:timers/promises';
import type { JudgedTime } from '../file-times.ts';

/**
 * What a test may not do in the tiers that run at each change (docs/decisions/tests.md). A test that does it fails with
 * the name of the rule, because such tests are slow or depend on the speed of the machine.
 */
export const RULES = {
  process: 'no child process: tests that start programs stand in test/programs',
  wait: 'no wait over 2 s: let a clock or settle() say it instead of polling',
  timer: 'no real timer over 50 ms: advance the test clock',
  duration: 'no test over 2 s: divide it, or move it to test/programs',
  port: 'no fixed port: listen on port 0',
} as const;

export type Rule = keyof typeof RULES;

const TIERS = /\/test\/(unit|server|contract)\//;
const TIMER_MS_MAX = 50;
export const WAIT_MS_MAX = 2_000;
export const POLL_MS = 20;
const TEST_MS_MAX = 2_000;

/** Since the last test that was judged, with the hooks before it. */
let breaches: { rule: Rule; detail: string }[] = [];
/** As it was before a test could replace it. */
const monotonic = performance.now.bind(performance);
let isInstalled = false;
let exemptions = 0;
let exemptMs = 0;
/** Ports that the system has chosen in this process: a server that went away may come back at its own. */
const ownPorts = new Set<number>();

/** Of a test file: whether the rules hold for it. */
export function isUnderRules(file: string | undefined): boolean {
  return file !== undefined && TIERS.test(file.replaceAll('\\', '/'));
}

let isRunUnderRules = false;

/** @param files  those that Mocha is about to run */
export function beginRun(files: readonly (string | undefined)[]): void {
  isRunUnderRules = files.length > 0 && files.every(isUnderRules);
}

/**
 * Whether servers of this run may start programs. A job that a server runs by the clock, such as the hourly search for
 * backups to verify, would start one during whichever test comes then.
 */
export const mayStartPrograms = (): boolean => !isRunUnderRules;

export function noteBreach(rule: Rule, detail: string): void {
  if (isInstalled && exemptions === 0) breaches.push({ rule, detail });
}

/** For what the harness itself does: the Postgres of a test file that is run by itself. Its time does not count. */
export async function exempt<T>(work: () => Promise<T>): Promise<T> {
  exemptions++;
  const at = monotonic();
  try {
    return await work();
  } finally {
    exemptions--;
    exemptMs += monotonic() - at;
  }
}

/** A port that the test has got from the system, where the same server listens again. */
export function allowPort(port: number): void {
  ownPorts.add(port);
}

/** Watches what this process does from now on. */
export function installRules(): void {
  if (isInstalled) return;
  isInstalled = true;
  watchProcesses();
  watchTimers();
  watchPorts();
}

function watchProcesses(): void {
  const { spawn } = ChildProcess.prototype as unknown as { spawn(options: { file: string }): unknown };
  Object.assign(ChildProcess.prototype, {
    spawn(this: ChildProcess, options: { file: string }): unknown {
      noteBreach('process', options.file);
      return spawn.call(this, options);
    },
  });
  for (const name of ['spawnSync', 'execFileSync', 'execSync'] as const) {
    const original = childProcess[name] as (...args: unknown[]) => unknown;
    Object.assign(childProcess, {
      [name](...args: unknown[]): unknown {
        noteBreach('process', String(args[0]));
        return original(...args);
      },
    });
  }
  syncBuiltinESMExports();
}

/** Timers that test code sets, and that then really fire. One that only ends a test that hangs never does. */
function watchTimers(): void {
  const { setTimeout: original } = globalThis;
  const watched = (callback: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => {
    if ((ms ?? 0) <= TIMER_MS_MAX || !isOfTest()) return original(callback, ms, ...args);
    const fired = () => {
      noteBreach('timer', `${ms} ms`);
      callback(...args);
    };
    return original(fired, ms);
  };
  globalThis.setTimeout = Object.assign(watched, original);
  const { setTimeout: sleep } = timersPromises;
  Object.assign(timersPromises, {
    setTimeout: async <T>(ms?: number, ...rest: [T?, { signal?: AbortSignal }?]) => {
      const isLong = (ms ?? 0) > TIMER_MS_MAX && isOfTest();
      const value = await sleep(ms, ...rest);
      if (isLong) noteBreach('timer', `${ms} ms`);
      return value;
    },
  });
  syncBuiltinESMExports();
}

/** Whether the caller of this function's caller is code of a test. */
function isOfTest(): boolean {
  const { prepareStackTrace, stackTraceLimit } = Error;
  // Without the source map of each frame, which would cost more than many a test.
  Error.prepareStackTrace = (_error, frames) => frames[2]?.getFileName() ?? '';
  Error.stackTraceLimit = 3;
  const file = String(new Error('where').stack);
  Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  return file.includes('/test/') && !file.endsWith('/test-clock.ts');
}

function watchPorts(): void {
  const { listen } = Server.prototype;
  Object.assign(Server.prototype, {
    listen(this: Server, ...args: unknown[]): unknown {
      const [first] = args;
      const given = typeof first === 'object' && first !== null && 'port' in first ? first.port : first;
      const port = typeof given === 'number' ? given : 0;
      if (port > 0 && !ownPorts.has(port)) noteBreach('port', String(port));
      this.once('listening', () => {
        const address = this.address();
        if (typeof address === 'object' && address !== null) ownPorts.add(address.port);
      });
      return (listen as (...all: unknown[]) => unknown).apply(this, args);
    },
  });
}

/** What the judgement of a test needs to know of its beginning. */
export interface TestStart {
  at: number;
  waitedForProcessorMs: number;
  exemptMs: number;
}

export const startOfTest = (): TestStart => ({
  at: monotonic(),
  waitedForProcessorMs: waitedForProcessorMs(),
  exemptMs,
});

/** The test has failed for another reason. */
export function forgetBreaches(): void {
  breaches = [];
}

/**
 * Ends the judgement of one test.
 * @param isAlone  whether nothing else runs beside this test file. Beside others a test may be slow through no fault of
 * its own: the duration is only reported then, and the run repeats the file alone at its end.
 * @returns how long it took, in milliseconds, without what this thread waited for a processor
 * @throws Error that names each rule which it has broken
 */
export function judge(start: TestStart, isAlone: boolean): JudgedTime {
  const found = breaches;
  breaches = [];
  const notOwn = waitedForProcessorMs() - start.waitedForProcessorMs + exemptMs - start.exemptMs;
  const ms = monotonic() - start.at - notOwn;
  const isOver = (factor: number) => ms > TEST_MS_MAX * factor;
  const isTooLong = GIVEN_SLOWNESS === undefined ? isOver(1) && isOver(slowness()) : isOver(GIVEN_SLOWNESS);
  if (isTooLong && isAlone) found.push({ rule: 'duration', detail: `${ms.toFixed(0)} ms` });
  if (found.length === 0) return { ms, isTooLong };
  const lines = found.map(({ rule, detail }) => `${RULES[rule]} (${detail})`);
  throw new Error(`This test breaks a rule of its tier.\n${[...new Set(lines)].join('\n')}`);
}

/** Takes the place of what is measured, for the tests of this rule: the limit is multiplied by it. */
export const SLOWNESS_VARIABLE = 'MUSTER_TEST_SLOWNESS';
const { [SLOWNESS_VARIABLE]: slownessText } = process.env;
const GIVEN_SLOWNESS = slownessText === undefined ? undefined : Number(slownessText);
/** What `sampleWork` takes on the machine on which the limit of the duration was set, when it does nothing else. */
const SAMPLE_MS = 16.5;
const SAMPLES = 10;
const SAMPLE_ROWS = JSON.stringify(
  Array.from({ length: 200 }, (_, id) => ({
    id,
    name: `device ${id}`,
    tags: ['a', 'b'],
    at: new Date(id * 1e9),
  })),
);

/**
 * How many times longer than on that machine the same work takes here and now, because this one is slower or busy with
 * something else. The load counts as well, because a test waits for the database, which is another process.
 */
function slowness(): number {
  sampleWork();
  const at = monotonic();
  for (let sample = 0; sample < SAMPLES; sample++) sampleWork();
  const busyness = (loadavg()[0] ?? 0) / availableParallelism();
  return Math.max(1, busyness, (monotonic() - at) / SAMPLES / SAMPLE_MS);
}

function sampleWork(): void {
  for (let turn = 0; turn < 40; turn++) {
    const rows: { name: string }[] = JSON.parse(SAMPLE_ROWS);
    rows.sort((one, other) => (other.name < one.name ? -1 : 1));
    JSON.stringify(rows);
  }
}

/** For how long this thread was ready and had no processor. Only Linux says it. */
function waitedForProcessorMs(): number {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}
