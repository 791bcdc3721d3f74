import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { z } from 'zod';
import { type Outcome, simulate } from './simulation.ts';

/**
 * Runs the worlds of many seeds, up to the first that is not right (docs/tests.md).
 *
 *     npm run test:simulation -- --seed 1 --seeds 100   these; the end of the history of one that is not right is printed
 *     npm run test:simulation -- --keep-going           all of them, and of each that is not right one line
 *     npm run test:simulation -- --seed 7 --seeds 1 --history --lines 100000   all that happened
 *     npm run test:simulation -- --drill redisDies --scale 0.1   this drill only, after a tenth of the usual faults
 *     npm run test:simulation -- --threads 1            on one processor; without this, on all
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '100' },
    lines: { type: 'string', default: '400' },
    history: { type: 'boolean', default: false },
    drill: { type: 'string' },
    scale: { type: 'string', default: '1' },
    threads: { type: 'string', default: String(availableParallelism()) },
    'keep-going': { type: 'boolean', default: false },
  },
});
const firstSeed = Number(values.seed);
const seeds = Number(values.seeds);

const world = (seed: number): Promise<Outcome> =>
  simulate(seed, {
    lines: Number(values.lines),
    scale: Number(values.scale),
    ...(values.drill === undefined ? {} : { only: values.drill }),
  });

type Run = (seed: number) => Promise<Outcome>;

/** A thread has its own clock, randomness and ids, which a world replaces while it runs. */
function threadOf(): { run: Run; end: () => Promise<unknown> } {
  const worker = new Worker(new URL(import.meta.url), { argv: process.argv.slice(2) });
  const run: Run = (seed) =>
    new Promise((resolve, reject) => {
      worker.once('error', reject);
      worker.once('message', (outcome: Outcome) => {
        worker.off('error', reject);
        resolve(outcome);
      });
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- the rule is for browser windows; this is a worker thread
      worker.postMessage(seed);
    });
  return { run, end: () => worker.terminate() };
}

function serveThread(): void {
  parentPort?.on('message', (seed: unknown) => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- the rule is for browser windows; this is a worker thread
    void world(z.number().parse(seed)).then((outcome) => parentPort?.postMessage(outcome));
  });
}

async function main(): Promise<void> {
  const print = (text: string) => process.stdout.write(`${text}\n`);
  const begun = performance.now();
  const counts = new Map<string, number>();
  const failures: Outcome[] = [];
  let virtualMs = 0;
  let events = 0;
  let nextSeed = firstSeed;
  const note = (outcome: Outcome) => {
    virtualMs += outcome.virtualMs;
    events += outcome.events;
    for (const [what, count] of outcome.counts) counts.set(what, (counts.get(what) ?? 0) + count);
    if (values.history) print(outcome.tail.join('\n'));
    const [violation] = outcome.violations;
    if (violation === undefined) return;
    failures.push(outcome);
    if (values['keep-going']) print(`seed ${outcome.seed}: ${violation.rule}: ${violation.text}`);
  };
  // Seeds are given out in order, so every one before the first that fails has been run.
  const isOver = () => nextSeed >= firstSeed + seeds || (failures.length > 0 && !values['keep-going']);
  const lane = async (run: Run) => {
    while (!isOver()) note(await run(nextSeed++));
  };
  const threads = Array.from({ length: Math.min(seeds, Number(values.threads)) }, () => undefined);
  if (threads.length === 1) await lane(world);
  else {
    const all = threads.map(threadOf);
    await Promise.all(all.map(({ run }) => lane(run)));
    await Promise.all(all.map(({ end }) => end()));
  }
  const [first] = failures.toSorted((one, other) => one.seed - other.seed);
  const [violation] = first?.violations ?? [];
  if (first !== undefined && violation !== undefined && !values['keep-going']) {
    print(`seed ${first.seed}: ${violation.rule}: ${violation.text}`);
    if (!values.history) print(first.tail.join('\n'));
  }
  const seconds = (performance.now() - begun) / 1000;
  const hours = virtualMs / 3_600_000;
  const { user, system } = process.cpuUsage();
  const cpu = (user + system) / 1_000_000;
  print(
    `${nextSeed - firstSeed} seeds, ${failures.length} failed; ${hours.toFixed(1)} hours in ${seconds.toFixed(1)} s: ` +
      `${((hours / seconds) * 60).toFixed(0)} hours a minute, ${(events / seconds).toFixed(0)} events a second, ` +
      `${(cpu / hours).toFixed(2)} s of processor time an hour`,
  );
  print([...counts].map(([what, count]) => `${what} ${count}`).join(', '));
  process.exitCode = failures.length > 0 ? 1 : 0;
}

if (isMainThread) await main();
else serveThread();
