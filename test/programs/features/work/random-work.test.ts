import { expect } from 'chai';
import fc from 'fast-check';
import { z } from 'zod';
import { defineWork, WorkEngine } from '../../../../src/features/work/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { type DyingPool, openDyingPool } from '../../../support/work/dying-pool.ts';
import { createWorkBench, type WorkBench } from '../../../support/work/work-bench.ts';

/** What one piece of work does in its steps, chosen by the run. */
const Input = z.object({
  steps: z.array(z.enum(['next', 'wait', 'throw', 'save', 'long', 'restart'])),
  end: z.enum(['completed', 'partial', 'failed']),
});
type Input = z.infer<typeof Input>;
const KIND = defineWork({
  kind: 'test.random',
  input: Input,
  steps: ['begin'],
  attempts: 30,
  backOff: { firstMs: 1, longestMs: 1 },
  limits: { inProcess: 4, inCluster: 6, ofPartner: 4, ofTarget: 2 },
});
/** A step that does not listen takes so long, in turns of the event loop. */
const LONG_TURNS = 40;
const RUNS = Number(process.env['MUSTER_WORK_RUNS'] ?? 25);
const TIMING = { pollMs: 5, leaseMs: 6000, graceMs: 5, closeMs: 300 };

const oneWork = fc.record({
  input: fc.record({
    steps: fc.array(fc.constantFrom(...Input.shape.steps.element.options), { maxLength: 4 }),
    end: fc.constantFrom(...Input.shape.end.options),
  }),
  target: fc.constantFrom('a', 'b', 'c'),
  isUrgent: fc.boolean(),
  needs: fc.array(fc.record({ nth: fc.nat(), mustSucceed: fc.boolean() }), { maxLength: 2 }),
});
const which = fc.nat();
const change = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('run' as const), turns: fc.integer({ min: 1, max: 60 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('die' as const), server: fc.nat(1), statements: fc.nat(40) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lapse' as const), server: fc.nat(1) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pause' as const), which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('resume' as const), which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('report' as const), which }) },
);

interface Server {
  engine: WorkEngine;
  pool: DyingPool;
}

describe('random work on two servers that die between any two statements', function () {
  // Only ends what hangs: a run takes about two seconds, and more on a slow machine.
  this.timeout(900_000);
  let bench: WorkBench;
  before(async () => {
    bench = await createWorkBench();
    await bench.owner(`create table settled (work_id uuid, status text, fence bigint);
      grant insert, select on settled to svc_system, svc_app`);
  });
  after(() => bench.drop());

  it('loses nothing, settles each once, and runs nothing that was cancelled', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(oneWork, { minLength: 1, maxLength: 12 }),
        fc.array(change, { maxLength: 14 }),
        fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })),
        (works, changes, numbers) => runWorld(bench, works, changes, () => numbers.next().value ?? 0),
      ),
      { numRuns: RUNS, endOnFailure: true, includeErrorInReport: true },
    );
  });
});

async function runWorld(
  bench: WorkBench,
  works: readonly (typeof oneWork extends fc.Arbitrary<infer T> ? T : never)[],
  changes: readonly (typeof change extends fc.Arbitrary<infer T> ? T : never)[],
  random: () => number,
): Promise<void> {
  await bench.owner('delete from work; delete from work_holders; delete from settled');
  const violations: string[] = [];
  /** The steps that run, by work and server: after an end none may begin, and one at a time holds a claim that counts. */
  const ended = new Set<string>();
  const restarted = new Set<string>();
  const servers: Server[] = [];

  const addBehavior = (engine: WorkEngine) =>
    engine.add(KIND, {
      steps: {
        async begin(run) {
          if (ended.has(run.id)) violations.push(`${run.id} runs after its end`);
          const done = z.number().catch(0).parse(run.checkpoint);
          const what = run.input.steps[done];
          if (what === undefined) return { end: { status: run.input.end } };
          // Each part is done once it is saved.
          await run.save(done + 1);
          if (what === 'long') for (let turn = 0; turn < LONG_TURNS; turn++) await nextTurn();
          if (what === 'throw') throw new Error('planned');
          if (what === 'wait') return { waitMs: 1 };
          if (what === 'restart' && !restarted.has(run.id)) {
            restarted.add(run.id);
            return { restart: true };
          }
          return { next: 'begin' };
        },
      },
      late: async () => ({ end: { status: 'completed' } }),
      async settle(tx, { id }, { status }) {
        await tx.raw(
          'insert into settled (work_id, status, fence) select id, ?, fence from work where id = ?',
          [status, id],
        );
        // Only after the commit does it count; a later claim of ended work is a fault of its own, found at the end.
        void tx.executionPromise.then(
          () => ended.add(id),
          () => {},
        );
      },
    });
  const startServer = (): Server => {
    const pool = openDyingPool(bench.database.appUrl, random);
    const engine = new WorkEngine({ db: pool.db, nodeId: newId(), log: quietLog, timing: TIMING });
    addBehavior(engine);
    engine.start();
    const server = { engine, pool };
    servers.push(server);
    return server;
  };
  const live = [startServer(), startServer()];

  /** Nobody renews the lease of a process that is gone. */
  const bury = async (at: number) => {
    const dead = live[at]!;
    dead.pool.dieAfter(0);
    void dead.engine.close();
    await bench.owner(`update work_holders set alive_until = now() - interval '1 s'`);
    live[at] = startServer();
  };

  // A third process makes requests: those of a process that dies are not what this is about.
  const front = bench.server({ pollMs: 3_600_000 });
  addBehavior(front.engine);
  const ids: string[] = [];
  for (const { input, target, isUrgent, needs } of works) {
    const needed = [
      ...new Map(needs.map(({ nth, mustSucceed }) => [ids[nth % (ids.length || 1)], mustSucceed])),
    ];
    const id = await front.enqueue(KIND, input, {
      target,
      isUrgent,
      needs: needed.flatMap(([needId, mustSucceed]) =>
        needId === undefined ? [] : [{ id: needId, mustSucceed }],
      ),
    });
    ids.push(id!);
  }
  const cancelled = new Set<string>();
  const reported = new Set<string>();
  /** A device reports later what it has done, as the trigger on commands notes it. */
  const report = async (id: string) => {
    const noted = await bench.owner(
      `update work set has_late = true, due_at = now(), stage = case when stage = 'ended' then 'ready' else stage end,
        attempt = case when stage = 'ended' then 0 else attempt end
      where id = $1 and stage in ('leased', 'ended') and not has_late returning id`,
      [id],
    );
    if (noted.length > 0) reported.add(id);
  };
  for (const next of changes) {
    const id = 'which' in next ? ids[next.which % ids.length]! : '';
    if (next.do === 'run') for (let turn = 0; turn < next.turns; turn++) await nextTurn();
    else if (next.do === 'die') {
      live[next.server]!.pool.dieAfter(next.statements);
      for (let turn = 0; turn < 200 && !live[next.server]!.pool.isDead; turn++) await nextTurn();
      await bury(next.server);
    } else if (next.do === 'lapse') {
      await bench.owner(`update work_holders set alive_until = now() - interval '1 s'`);
    } else if (next.do === 'pause') await front.pause(id);
    else if (next.do === 'resume') await front.resume(id);
    else if (next.do === 'report') await report(id);
    else {
      await front.cancel(id).then(
        () => cancelled.add(id),
        () => undefined,
      );
    }
  }

  for (const id of ids) await front.resume(id);
  const deadline = performance.now() + 180_000;
  for (;;) {
    await bench.owner(`update work set due_at = now() where stage = 'ready' and due_at > now()`);
    const [row] = await bench.owner<{ open: number }>(
      `select count(*)::int as open from work where stage <> 'ended'`,
    );
    if (row?.open === 0) break;
    if (performance.now() > deadline) violations.push('work did not end');
    if (violations.length > 0) break;
    for (let turn = 0; turn < 20; turn++) await nextTurn();
  }
  for (const { engine, pool } of servers) {
    await engine.close();
    await pool.db.destroy().catch(() => undefined);
  }
  await front.stop();

  const rows = await bench.rows();
  const settled = await bench.owner<{ work_id: string; status: string }>(
    'select work_id, status from settled order by fence',
  );
  for (const { id, status, stage, kind } of rows) {
    if (kind !== KIND.kind) continue;
    const ends = settled.filter(({ work_id: of }) => of === id);
    if (stage !== 'ended') violations.push(`${id} is ${stage}`);
    // Work without a command that is cancelled between two steps ends at once, with what its device says of no use.
    const wanted = reported.has(id) && status !== 'cancelled' ? 2 : 1;
    if (ends.length !== wanted) violations.push(`${id} was settled ${ends.length} times`);
    if (ends.at(-1)?.status !== status) {
      violations.push(`${id} is ${status}, and was settled as ${String(ends.at(-1)?.status)}`);
    }
    if (status === 'cancelled' && !cancelled.has(id)) violations.push(`${id} was cancelled by nobody`);
  }
  expect(rows).to.have.length(ids.length);
  expect(violations).to.deep.equal([]);
}

const nextTurn = () => new Promise<void>((resolve) => setTimeout(resolve, 1));
