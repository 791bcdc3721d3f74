import { parseArgs } from 'node:util';
import { simulate } from './simulation.ts';

/**
 * Runs the worlds of many seeds, up to the first that is not right (docs/tests.md).
 *
 *     npm run test:simulation -- --seed 1 --seeds 100   these; the end of the history of one that is not right is printed
 *     npm run test:simulation -- --keep-going           all of them, and of each that is not right one line
 *     npm run test:simulation -- --seed 7 --seeds 1 --history --lines 100000   all that happened
 */

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '100' },
    lines: { type: 'string', default: '400' },
    history: { type: 'boolean', default: false },
    'keep-going': { type: 'boolean', default: false },
  },
});
const firstSeed = Number(values.seed);
const seeds = Number(values.seeds);
const print = (text: string) => process.stdout.write(`${text}\n`);
const begun = performance.now();
const counts = new Map<string, number>();
let virtualMs = 0;
let events = 0;
let failed = 0;
for (let seed = firstSeed; seed < firstSeed + seeds; seed++) {
  const outcome = await simulate(seed, { lines: Number(values.lines) });
  virtualMs += outcome.virtualMs;
  events += outcome.events;
  for (const [what, count] of outcome.counts) counts.set(what, (counts.get(what) ?? 0) + count);
  if (values.history) print(outcome.tail.join('\n'));
  const [violation] = outcome.violations;
  if (violation === undefined) continue;
  failed += 1;
  print(`seed ${seed}: ${violation.rule}: ${violation.text}`);
  if (values['keep-going']) continue;
  if (!values.history) print(outcome.tail.join('\n'));
  break;
}
const seconds = (performance.now() - begun) / 1000;
const hours = virtualMs / 3_600_000;
print(
  `${seeds} seeds, ${failed} failed; ${hours.toFixed(1)} hours in ${seconds.toFixed(1)} s: ` +
    `${((hours / seconds) * 60).toFixed(0)} hours a minute, ${(events / seconds).toFixed(0)} events a second`,
);
print([...counts].map(([what, count]) => `${what} ${count}`).join(', '));
process.exitCode = failed > 0 ? 1 : 0;
