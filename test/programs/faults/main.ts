import '../../support/hooks.ts';
import { startRedis } from '../../support/redis.ts';
import { startOwnPostgres } from '../e2e/faults/support/own-postgres.ts';
import { run } from './run.ts';
import { FAULT_KINDS, schedule } from './schedule.ts';
import { violations } from './violations.ts';

/**
 * `npm run test:faults`: a cluster of real programs under load while its parts fail, see
 * docs/decisions/tests.md. FAULTS_SEED repeats a run, FAULTS_MINUTES says how long it lasts, FAULTS_LOAD multiplies
 * its load (default 1), and FAULTS_WITHOUT=kill,restart leaves kinds of faults out: servers that are never restarted show
 * what grows in them.
 */

const SEED_LIMIT = 2 ** 31;

function numberFrom(name: string, otherwise: number): number {
  const text = process.env[name];
  if (text === undefined || text === '') return otherwise;
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new Error(`${name} must be a number above 0, and is ${JSON.stringify(text)}.`);
}

const tell = (line: string) => void process.stdout.write(`${line}\n`);
const seed = numberFrom('FAULTS_SEED', Math.ceil(Math.random() * SEED_LIMIT));
const minutes = numberFrom('FAULTS_MINUTES', 10);
tell(`seed ${seed}, ${minutes} minutes of faults; repeat with FAULTS_SEED=${seed} FAULTS_MINUTES=${minutes}`);

const load = numberFrom('FAULTS_LOAD', 1);
const without = new Set((process.env['FAULTS_WITHOUT'] ?? '').split(',').filter((kind) => kind !== ''));
const unknown = [...without].filter((kind) => !FAULT_KINDS.some((known) => known === kind));
if (unknown.length > 0) {
  throw new Error(`FAULTS_WITHOUT names ${unknown.join(', ')}; there are ${FAULT_KINDS.join(', ')}.`);
}

const redis = await startRedis();
const postgres = await startOwnPostgres();
// The programs end with this one; Postgres does so only where it is told to.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void postgres.remove().finally(() => process.exit(130)));
}
try {
  const { record, counts } = await run({
    rounds: schedule(seed, { totalMs: minutes * 60_000, without: ({ kind }) => without.has(kind) }),
    database: postgres,
    redis,
    postgres,
    simulatedAgents: 50,
    realAgents: 2,
    commandsPerSecond: 6 * load,
    queriesPerSecond: 4 * load,
    churnMs: 700 / load,
    restMs: 120_000,
    tell,
  });
  const found = violations(record);
  tell('');
  for (const [what, count] of counts) tell(`${String(count).padStart(8)}  ${what}`);
  tell('');
  for (const { rule, detail } of found) tell(`VIOLATED  ${rule}: ${detail}`);
  tell(
    found.length === 0
      ? `Nothing was violated (seed ${seed}).`
      : `${found.length} violations (seed ${seed}).`,
  );
  process.exitCode = found.length === 0 ? 0 : 1;
} finally {
  await postgres.remove();
  await redis.remove();
}
