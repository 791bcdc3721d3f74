import { z } from 'zod';
import { defineWork, WorkEngine } from '../src/features/work/index.ts';
import { type Db, openPool } from '../src/platform/db/pool.ts';
import { defineJob } from '../src/platform/jobs/definition.ts';
import { createJobs } from '../src/platform/jobs/jobs.ts';
import { createEncryptor } from '../src/platform/secrets/sealed.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:work` measures how many small pieces of work one server ends in a second: as background jobs, which is
 * the baseline, as work, and as work while 100,000 others wait. Each does nothing, so that only the engine counts. `COUNT`
 * and `WAITING` set the sizes.
 */

const COUNT = Number(process.env['COUNT'] ?? 4000);
const WAITING = Number(process.env['WAITING'] ?? 100_000);
const PARTNERS = 50;
const AT_ONCE = 50;

const database = await createTestDatabase({ durable: true });
const owner = <Row extends object>(sql: string, values?: unknown[]) =>
  asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
const Nothing = z.object({});
const JOB = defineJob({ name: 'bench.small', input: Nothing, concurrency: AT_ONCE });
const WORK = defineWork({
  kind: 'bench_small',
  input: Nothing,
  steps: ['begin'],
  limits: { inProcess: AT_ONCE },
});
const ratio = (value: number, baseline: number) => Math.round((value / baseline) * 100) / 100;
const PARTNER = `(select id from partners order by id offset n % ${PARTNERS} limit 1)`;

try {
  await owner(
    `insert into partners (id, name, slug, status)
    select md5('partner' || n)::uuid, 'P', n::text, 'active' from generate_series(1, ${PARTNERS}) n`,
  );
  const jobs = await measure('jobs', addJobs, runJobs);
  const work = await measure('work', addWork, runWork);
  await addWork(WAITING);
  const crowded = await measure('work', addWork, runWork);
  console.table([
    { 'what ends': 'background jobs', 'in a second': Math.round(jobs), 'of the baseline': 1 },
    { 'what ends': 'work', 'in a second': Math.round(work), 'of the baseline': ratio(work, jobs) },
    {
      'what ends': `work, while ${WAITING} wait`,
      'in a second': Math.round(crowded),
      'of the baseline': ratio(crowded, jobs),
    },
  ]);
} finally {
  await database.drop();
  await stopTestPostgres();
}

/** Returns how many have ended in a second. */
async function measure(
  what: 'jobs' | 'work',
  add: (count: number) => Promise<unknown>,
  run: (db: Db) => { start: () => void; close: () => Promise<void> },
): Promise<number> {
  await add(COUNT);
  await owner('vacuum analyze background_jobs');
  await owner('vacuum analyze work');
  const ended =
    what === 'jobs'
      ? `select count(*)::int as n from background_jobs where state = 'succeeded'`
      : `select count(*)::int as n from work where status = 'completed'`;
  const count = async () => (await owner<{ n: number }>(ended))[0]?.n ?? 0;
  const before = await count();
  const db = openPool(database.appUrl, { max: 6, name: 'bench' });
  const server = run(db);
  const at = performance.now();
  server.start();
  let done = 0;
  while (done < COUNT) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    done = (await count()) - before;
  }
  const seconds = (performance.now() - at) / 1000;
  await server.close();
  await db.destroy();
  return done / seconds;
}

function runJobs(db: Db) {
  const jobs = createJobs({ db, encryptor: createEncryptor({ current: 'bench', old: [] }), log: quietLog });
  jobs.handle(JOB, async () => {});
  return jobs;
}

function runWork(db: Db) {
  const engine = new WorkEngine({ db, nodeId: 'bench', log: quietLog });
  engine.add(WORK, { steps: { begin: async () => ({ end: { status: 'completed' } }) } });
  return engine;
}

async function addJobs(count: number) {
  await owner(
    `insert into background_jobs (id, name, partner_id, input, deadline, max_attempts)
    select gen_random_uuid(), '${JOB.name}', ${PARTNER}, '{}', now() + interval '1 day', 5 from generate_series(1, $1::int) n`,
    [count],
  );
}

async function addWork(count: number) {
  await owner(
    `insert into work (id, kind, partner_id, input, step, deadline_at)
    select gen_random_uuid(), '${WORK.kind}', ${PARTNER}, '{}', 'begin', now() + interval '1 day'
    from generate_series(1, $1::int) n`,
    [count],
  );
}
