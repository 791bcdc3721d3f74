import { expect } from 'chai';
import { z } from 'zod';
import {
  defineWork,
  PermanentWorkFailure,
  type StepOutcome,
  type WorkEnd,
  type WorkRun,
} from '../../../../src/features/work/index.ts';
import { type Tx, withSystem, withTenant } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { testClock } from '../../../support/test-clock.ts';
import { createWorkBench, type WorkBench } from '../../../support/work/work-bench.ts';

const Input = z.object({ n: z.number() });
const QUICK = { firstMs: 1, longestMs: 1 };
const kindOf = (more: Partial<Parameters<typeof defineWork<{ n: number }>>[0]> = {}) =>
  defineWork({ kind: 'test', input: Input, steps: ['begin'], backOff: QUICK, ...more });

const untilAborted = ({ signal }: Pick<WorkRun, 'signal'>) =>
  new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });

const looksIn = (sent: readonly string[]) => sent.filter((text) => text.includes('as overdue')).length;

/** A promise, and what fulfills it. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

describe('work', () => {
  let bench: WorkBench;
  before(async () => {
    bench = await createWorkBench();
  });
  after(() => bench.drop());
  afterEach(() => bench.owner('delete from work; delete from work_holders'));

  const status = async (id: string | undefined) => (await bench.row(id)).status;

  it('goes from step to step, and ends once with what its settling stores', async () => {
    const kind = kindOf({ steps: ['begin', 'finish'] });
    const server = bench.server();
    const seen: unknown[] = [];
    server.engine.add(kind, {
      steps: {
        begin: async ({ input, attempt }) => {
          seen.push(['begin', input.n, attempt]);
          return { next: 'finish' };
        },
        finish: async () => ({
          end: { status: 'partial', code: 'SOME_LEFT', message: 'Two are left.', result: 40 },
        }),
      },
      settle: async (_tx, { id }, end) => void seen.push(['settle', id, end.status, end.result]),
    });
    const id = await server.enqueue(kind, { n: 7 });
    await server.engine.settle();
    expect(seen).to.deep.equal([
      ['begin', 7, 1],
      ['settle', id, 'partial', 40],
    ]);
    expect(await bench.row(id)).to.deep.include({
      status: 'partial',
      stage: 'ended',
      error_code: 'SOME_LEFT',
      error_message: 'Two are left.',
    });
    await server.stop();
  });

  it('that throws is tried again, and fails when its attempts are used up, without a word of the cause', async () => {
    const kind = kindOf({ attempts: 3 });
    const server = bench.server();
    const attempts: number[] = [];
    const settled: string[] = [];
    server.engine.add(kind, {
      steps: {
        begin: async ({ attempt }) => {
          attempts.push(attempt);
          throw new Error('password=hunter2');
        },
      },
      settle: async (_tx, _work, { status: end }) => void settled.push(end),
    });
    const id = await server.enqueue(kind, { n: 1 });
    await eventually(
      async () => {
        await server.engine.settle();
        return status(id);
      },
      (found) => found === 'failed',
    );
    expect(attempts).to.deep.equal([1, 2, 3]);
    expect(settled).to.deep.equal(['failed']);
    const { error_code: code, error_message: message } = await bench.row(id);
    expect(code).to.equal('ATTEMPTS_USED');
    expect(message).not.to.contain('hunter2');
    await server.stop();
  });

  it('that cannot succeed fails at once with its own reason', async () => {
    const kind = kindOf();
    const server = bench.server();
    server.engine.add(kind, {
      steps: {
        begin: async () => {
          throw new PermanentWorkFailure('NO_KEY', 'The key was deleted.');
        },
      },
    });
    const id = await server.enqueue(kind, { n: 1 });
    await server.engine.settle();
    expect(await bench.row(id)).to.deep.include({ status: 'failed', error_code: 'NO_KEY', attempt: 1 });
    await server.stop();
  });

  it('that waits counts no attempt, and is begun again later', async () => {
    const kind = kindOf({ attempts: 2 });
    const server = bench.server();
    let waits = 5;
    server.engine.add(kind, {
      steps: { begin: async () => (waits-- > 0 ? { waitMs: 0 } : { end: { status: 'completed' } }) },
    });
    const id = await server.enqueue(kind, { n: 1 });
    await server.engine.settle();
    expect(await bench.row(id)).to.deep.include({ status: 'completed', attempt: 1 });
    await server.stop();
  });

  it('whose facts cannot be stored is not ended, and at last ends without them', async () => {
    const kind = kindOf({ attempts: 2 });
    const server = bench.server();
    let settles = 0;
    server.engine.add(kind, {
      steps: { begin: async () => ({ end: { status: 'completed' } }) },
      async settle() {
        settles += 1;
        throw new Error('no such table');
      },
    });
    const id = await server.enqueue(kind, { n: 1 });
    await eventually(
      async () => {
        await server.engine.settle();
        return status(id);
      },
      (found) => found === 'failed',
    );
    expect(settles).to.equal(2);
    await server.stop();
  });

  it('does its facts in the transaction of its end: both or neither', async () => {
    const kind = kindOf({ attempts: 3 });
    const server = bench.server();
    let failures = 1;
    server.engine.add(kind, {
      steps: { begin: async () => ({ end: { status: 'completed' } }) },
      async settle(tx) {
        await tx.raw('update partners set name = name || ? where id = ?', ['!', bench.partnerId]);
        if (failures-- > 0) throw new Error('after the facts');
      },
    });
    await server.enqueue(kind, { n: 1 });
    await eventually(
      async () => {
        await server.engine.settle();
        return (await bench.rows())[0]?.status;
      },
      (found) => found === 'completed',
    );
    const [row] = await bench.owner<{ name: string }>('select name from partners where id = $1', [
      bench.partnerId,
    ]);
    expect(row?.name).to.equal('P!');
    await server.stop();
  });

  describe('cancelled', () => {
    it('before it begins, ends at once and runs nothing', async () => {
      const kind = kindOf();
      const server = bench.server();
      const seen: string[] = [];
      server.engine.add(kind, {
        steps: {
          begin: async () => {
            seen.push('begin');
            return { end: { status: 'completed' } };
          },
        },
        settle: async (_tx, _work, end) => void seen.push(end.status),
      });
      const id = await server.enqueue(kind, { n: 1 }, { delayMs: 3_600_000 });
      await server.cancel(id!);
      expect(await status(id)).to.equal('cancelled');
      await server.engine.settle();
      expect(seen).to.deep.equal(['cancelled']);
      expect(await refusal(server.cancel(id!))).to.equal('conflict');
      await server.stop();
    });

    it('while a step runs, is cancelled only when that has stopped', async () => {
      const kind = kindOf();
      const server = bench.server();
      const begun = gate();
      const stopping = gate();
      server.engine.add(kind, {
        steps: {
          async begin(run) {
            begun.open();
            await untilAborted(run).catch(() => stopping.opened);
            throw new Error('stopped');
          },
        },
      });
      server.engine.start();
      const id = await server.enqueue(kind, { n: 1 });
      await begun.opened;
      await server.cancel(id!);
      expect(await status(id)).to.equal('running');
      stopping.open();
      await eventually(
        () => status(id),
        (found) => found === 'cancelled',
      );
      await server.stop();
    });

    it('while a step does not listen, stays done if that has done it', async () => {
      const kind = kindOf();
      const server = bench.server();
      const begun = gate();
      const done = gate();
      server.engine.add(kind, {
        steps: {
          async begin() {
            begun.open();
            await done.opened;
            return { end: { status: 'completed' } };
          },
        },
      });
      server.engine.start();
      const id = await server.enqueue(kind, { n: 1 });
      await begun.opened;
      await server.cancel(id!);
      done.open();
      await eventually(
        () => status(id),
        (found) => found === 'completed',
      );
      await server.stop();
    });

    const waits: [string, StepOutcome][] = [
      ['for its device', { until: 'connected' }],
      ['for an hour', { waitMs: 3_600_000 }],
    ];
    for (const [what, outcome] of waits) {
      it(`while a step decides to wait ${what}, does not wait any more`, async () => {
        const kind = kindOf();
        const server = bench.server();
        const begun = gate();
        const decided = gate();
        server.engine.add(kind, {
          steps: {
            async begin() {
              begun.open();
              await decided.opened;
              return outcome;
            },
          },
        });
        const id = await server.enqueue(kind, { n: 1 });
        const settling = server.engine.settle();
        await begun.opened;
        await server.cancel(id!);
        decided.open();
        await settling;
        expect(await status(id)).to.equal('cancelled');
        await server.stop();
      });
    }
  });

  it('is paused where it is, goes on from its checkpoint, and its deadline waits', async () => {
    const kind = kindOf();
    const server = bench.server();
    const begun = gate();
    const seen: unknown[] = [];
    server.engine.add(kind, {
      steps: {
        async begin(run) {
          seen.push(run.checkpoint);
          if (run.checkpoint !== undefined) return { end: { status: 'completed' } };
          await run.save({ done: 3 });
          begun.open();
          return untilAborted(run);
        },
      },
    });
    server.engine.start();
    const id = await server.enqueue(kind, { n: 1 });
    await begun.opened;
    expect(await server.pause(id!)).to.equal(true);
    await eventually(
      () => bench.row(id),
      ({ stage }) => stage === 'ready',
    );
    await bench.owner(
      `update work set paused_at = now() - interval '2 days', deadline_at = now() - interval '1 day'`,
    );
    await server.engine.settle();
    expect(await status(id)).to.equal('running');
    expect(await server.resume(id!)).to.equal(true);
    await eventually(
      () => status(id),
      (found) => found === 'completed',
    );
    expect(seen).to.deep.equal([undefined, { done: 3 }]);
    await server.stop();
  });

  it('past its deadline fails, whether it waits for its time, for other work, or runs', async () => {
    const kind = kindOf();
    const server = bench.server();
    const begun = gate();
    server.engine.add(kind, {
      steps: {
        async begin(run) {
          if (run.input.n === 3) {
            begun.open();
            return untilAborted(run);
          }
          return { end: { status: 'completed' } };
        },
      },
    });
    const other = (await server.enqueue(kind, { n: 0 }, { delayMs: 3_600_000 }))!;
    const late = await server.enqueue(kind, { n: 1 }, { delayMs: 3_600_000 });
    const blocked = await server.enqueue(kind, { n: 2 }, { needs: [{ id: other, mustSucceed: true }] });
    await bench.owner(`update work set deadline_at = now() - interval '1 s' where id = any($1)`, [
      [late, blocked],
    ]);
    const running = await server.enqueue(kind, { n: 3 }, { deadlineMs: 10_000 });
    server.engine.start();
    await begun.opened;
    await testClock.advance(10_000);
    await eventually(
      () => status(running),
      (found) => found === 'failed',
    );
    await eventually(
      () => status(blocked),
      (found) => found === 'failed',
    );
    expect(await bench.row(late)).to.deep.include({ status: 'failed', error_code: 'EXPIRED' });
    expect(await bench.row(blocked)).to.deep.include({ status: 'failed', error_code: 'EXPIRED' });
    expect(await bench.row(running)).to.deep.include({ status: 'failed', error_code: 'TIMED_OUT' });
    expect(await status(other)).to.equal('pending');
    await server.stop();
  });

  it('waits for the work that it needs, and fails with it only if it has to', async () => {
    const kind = kindOf();
    const server = bench.server();
    const order: number[] = [];
    server.engine.add(kind, {
      steps: {
        async begin({ input: { n } }) {
          order.push(n);
          return { end: { status: n === 2 ? 'failed' : 'completed' } };
        },
      },
    });
    const [first, second] = [newId(), newId()];
    const needsBoth = await withSystem(server.db, 'a request of a test', async (tx) => {
      await server.engine.enqueue(tx, kind, { n: 1 }, { id: first, delayMs: 60_000 });
      await server.engine.enqueue(tx, kind, { n: 2 }, { id: second, delayMs: 60_000 });
      return server.engine.enqueue(
        tx,
        kind,
        { n: 3 },
        { needs: [first, second].map((id) => ({ id, mustSucceed: id === first })) },
      );
    });
    const breaks = await server.enqueue(kind, { n: 4 }, { needs: [{ id: second, mustSucceed: true }] });
    await server.engine.settle();
    expect(order).to.deep.equal([]);
    await bench.owner('update work set due_at = now()');
    await server.engine.settle();
    expect(order.slice(0, 2).toSorted((a, b) => a - b)).to.deep.equal([1, 2]);
    expect(order.slice(2)).to.deep.equal([3]);
    expect(await status(needsBoth)).to.equal('completed');
    expect(await bench.row(breaks)).to.deep.include({ status: 'failed', error_code: 'DEPENDENCY_FAILED' });
    // What it needs has ended long ago.
    const after = await server.enqueue(kind, { n: 5 }, { needs: [{ id: first, mustSucceed: true }] });
    await server.engine.settle();
    expect(await status(after)).to.equal('completed');
    await server.stop();
  });

  it('frees what began to wait for it while its end was being stored', async () => {
    const kind = kindOf();
    const server = bench.server();
    const begun = gate();
    const done = gate();
    server.engine.add(kind, {
      steps: {
        async begin({ input: { n } }) {
          if (n === 1) {
            begun.open();
            await done.opened;
          }
          return { end: { status: 'completed' } };
        },
      },
    });
    server.engine.start();
    const first = (await server.enqueue(kind, { n: 1 }))!;
    await begun.opened;
    const second = await withSystem(server.db, 'a request of a test', async (tx) => {
      const id = await server.engine.enqueue(
        tx,
        kind,
        { n: 2 },
        { partnerId: bench.partnerId, needs: [{ id: first, mustSucceed: true }] },
      );
      done.open();
      await eventually(
        async () => bench.owner(`select from pg_stat_activity where wait_event_type = 'Lock'`),
        (waiting) => waiting.length > 0,
      );
      return id;
    });
    await eventually(
      () => status(second),
      (found) => found === 'completed',
    );
    await server.stop();
  });

  it('that ended, and of which a device reports later, frees nothing a second time and stays as it ended', async () => {
    const kind = kindOf({ attempts: 1 });
    const server = bench.server();
    let late: () => Promise<{ end: WorkEnd } | undefined> = async () => ({ end: { status: 'completed' } });
    server.engine.add(kind, {
      steps: { begin: async () => ({ end: { status: 'failed', code: 'NO_ANSWER' } }) },
      late: () => late(),
    });
    const [first, other] = [newId(), newId()];
    await withSystem(server.db, 'a request of a test', async (tx) => {
      await server.engine.enqueue(tx, kind, { n: 1 }, { id: first });
      await server.engine.enqueue(tx, kind, { n: 2 }, { id: other, delayMs: 3_600_000 });
    });
    const needs = [first, other].map((id) => ({ id, mustSucceed: false }));
    const waiting = await server.enqueue(kind, { n: 3 }, { needs });
    await server.engine.settle();
    expect((await bench.row(waiting)).blockers).to.equal(1);
    const reportLate = async () => {
      // As the trigger on commands does it.
      await bench.owner(
        `update work set stage = 'ready', has_late = true, due_at = now(), attempt = 0 where id = $1`,
        [first],
      );
      await server.engine.settle();
    };
    late = async () => {
      throw new Error('unreadable');
    };
    await reportLate();
    expect(await bench.row(first)).to.deep.include({
      status: 'failed',
      error_code: 'NO_ANSWER',
      stage: 'ended',
    });
    late = async () => {
      throw new PermanentWorkFailure('OTHER', 'Another reason.');
    };
    await reportLate();
    expect(await bench.row(first)).to.deep.include({
      status: 'failed',
      error_code: 'NO_ANSWER',
      stage: 'ended',
    });
    late = async () => undefined;
    await reportLate();
    expect(await bench.row(first)).to.deep.include({ status: 'failed', stage: 'ended' });
    late = async () => ({ end: { status: 'completed' } });
    await reportLate();
    expect(await status(first)).to.equal('completed');
    expect((await bench.row(waiting)).blockers).to.equal(1);
    await server.stop();
  });

  it('of which a device reports later while the end of its command is recorded is looked at once more', async () => {
    const kind = kindOf();
    const server = bench.server();
    const [begun, goOn] = [gate(), gate()];
    const settled: string[] = [];
    server.engine.add(kind, {
      steps: {
        async begin() {
          begun.open();
          await goOn.opened;
          return { end: { status: 'failed', code: 'NO_ANSWER' } };
        },
      },
      late: async () => ({ end: { status: 'completed' } }),
      settle: async (_tx, _work, { status: end }) => void settled.push(end),
    });
    const id = await server.enqueue(kind, { n: 1 });
    const done = server.engine.settle();
    await begun.opened;
    // As the trigger on commands does it. A pause ends with the work.
    await bench.owner('update work set has_late = true where id = $1', [id]);
    await server.pause(id!);
    goOn.open();
    await done;
    await server.engine.settle();
    expect(settled).to.deep.equal(['failed', 'completed']);
    expect(await bench.row(id)).to.deep.include({ status: 'completed', error_code: null, stage: 'ended' });
    await server.stop();
  });

  it('that ends with characters which the database cannot store ends with others in their place', async () => {
    const kind = kindOf();
    const server = bench.server();
    server.engine.add(kind, {
      steps: { begin: async () => ({ end: { status: 'failed', code: 'A\0B', message: 'no\0 room\uD800' } }) },
    });
    const id = await server.enqueue(kind, { n: 1 });
    await server.engine.settle();
    expect(await bench.row(id)).to.deep.include({
      status: 'failed',
      error_code: 'A\uFFFDB',
      error_message: 'no\uFFFD room\uFFFD',
    });
    await server.stop();
  });

  it('whose outcome the database refuses takes along none that is stored together with it', async () => {
    const kind = kindOf({ attempts: 1, steps: ['begin', 'x'.repeat(65)] });
    const server = bench.server();
    server.engine.add(kind, {
      steps: {
        begin: async ({ input: { n } }) =>
          n === 1 ? { next: 'x'.repeat(65) } : { end: { status: 'completed' } },
        ['x'.repeat(65)]: async () => ({ end: { status: 'completed' } }),
      },
    });
    for (const n of [0, 1, 2]) await server.enqueue(kind, { n });
    await server.engine.settle();
    const ends = (await bench.rows()).map((row) => row.status).toSorted();
    expect(ends).to.deep.equal(['completed', 'completed', 'failed']);
    expect(server.lines.filter(({ event }) => event === 'work.outcome_not_stored')).to.have.length(1);
    await server.stop();
  });

  it('whose end meets a deadlock is stored again, and its step is not repeated', async () => {
    const kind = kindOf({ attempts: 1 });
    const server = bench.server();
    let begun = 0;
    let settled = 0;
    server.engine.add(kind, {
      steps: {
        async begin() {
          begun += 1;
          return { end: { status: 'completed' } };
        },
      },
      async settle(tx) {
        settled += 1;
        if (settled === 1) await tx.raw(`do $$ begin raise exception using errcode = '40P01'; end $$`);
      },
    });
    server.engine.start();
    const id = await server.enqueue(kind, { n: 1 });
    await eventually(
      async () => {
        await testClock.advance(500);
        return status(id);
      },
      (found) => found === 'completed',
    );
    expect([begun, settled]).to.deep.equal([1, 2]);
    await server.stop();
  });

  describe('that records what a device has done', () => {
    for (const request of ['cancel', 'pause'] as const) {
      it(`is not stopped by a request to ${request} it`, async () => {
        const kind = kindOf();
        const server = bench.server();
        const begun = gate();
        const done = gate();
        server.engine.add(kind, {
          steps: {
            async begin({ signal }) {
              begun.open();
              await done.opened;
              signal.throwIfAborted();
              return { end: { status: 'completed' } };
            },
          },
        });
        const id = (await server.enqueue(kind, { n: 1 }, { delayMs: 60_000 }))!;
        await bench.owner('update work set command_id = gen_random_uuid(), due_at = now()');
        server.engine.start();
        await begun.opened;
        const column = request === 'cancel' ? 'cancel_requested_at' : 'paused_at';
        await bench.owner(`update work set ${column} = now()`);
        await sentStatements(['test-work'], (sent) =>
          eventually(
            async () => {
              server.engine.wake();
              return looksIn(sent);
            },
            (looks) => looks >= 2,
          ).then(() => undefined),
        );
        done.open();
        await eventually(
          () => status(id),
          (found) => found === 'completed',
        );
        await server.stop();
      });
    }
  });

  it('that limits hold up is looked for at each poll, and not without end', async () => {
    const kind = kindOf({ limits: { inProcess: 4, inCluster: 1 } });
    const server = bench.server({ pollMs: 3_600_000 });
    const begun = gate();
    const done = gate();
    server.engine.add(kind, {
      steps: {
        async begin() {
          begun.open();
          await done.opened;
          return { end: { status: 'completed' } };
        },
      },
    });
    for (let n = 0; n < 450; n++) {
      await server.enqueue(kind, { n }, { target: `target ${n}` });
    }
    const statements = await sentStatements(['test-work'], async (sent) => {
      server.engine.start();
      await begun.opened;
      let before = -1;
      await eventually(
        () => looksIn(sent),
        (looks) => {
          const isQuiet = looks === before;
          before = looks;
          return isQuiet;
        },
      );
    });
    // Two cycles through the 450 targets, 200 at a time, and the look that begins the first one.
    expect(looksIn(statements)).to.be.within(2, 10);
    done.open();
    await server.stop();
  });

  it('is added, made to wait, paused and cancelled by a tenant, who sees none of another', async () => {
    const kind = kindOf();
    const server = bench.server({ pollMs: 3_600_000 });
    server.engine.add(kind, { steps: { begin: async () => ({ end: { status: 'completed' } }) } });
    const owners = await bench.organizations(2);
    const as = <T>(orgId: string, work: (tx: Tx) => Promise<T>) =>
      withTenant(
        server.db,
        { scope: 'organization', userId: null, partnerId: null, orgAccess: 'listed', orgIds: [orgId] },
        work,
      );
    const [mine, other] = [owners[0]!, owners[1]!];
    const first = await as(mine, (tx) =>
      server.engine.enqueue(tx, kind, { n: 1 }, { orgId: mine, delayMs: 60_000 }),
    );
    const needs = [{ id: first!, mustSucceed: true }];
    const second = await as(mine, (tx) => server.engine.enqueue(tx, kind, { n: 2 }, { orgId: mine, needs }));
    expect((await bench.row(second)).blockers).to.equal(1);
    const ctx = (tx: Tx) => ({ tx, afterCommit: () => {} });
    expect(await as(other, (tx) => server.engine.pause(ctx(tx), first!))).to.equal(false);
    expect(await refusal(as(other, (tx) => server.engine.cancel(ctx(tx), first!)))).to.equal('not_found');
    expect(
      await refusal(as(other, (tx) => server.engine.enqueue(tx, kind, { n: 3 }, { orgId: mine }))),
    ).to.equal('42501');
    expect(await as(mine, (tx) => server.engine.pause(ctx(tx), first!))).to.equal(true);
    await as(mine, (tx) => server.engine.cancel(ctx(tx), first!));
    expect(await status(first)).to.equal('cancelled');
    await server.engine.settle();
    expect(await bench.row(second)).to.deep.include({ status: 'failed', error_code: 'DEPENDENCY_FAILED' });
    await server.stop();
  });

  it('of one exclusive key is open once, on however many servers', async () => {
    const kind = kindOf();
    const server = bench.server();
    server.engine.add(kind, { steps: { begin: async () => ({ end: { status: 'completed' } }) } });
    const add = () => server.enqueue(kind, { n: 1 }, { exclusiveKey: 'vault 1' });
    const added = await Promise.all([add(), add(), add()]);
    expect(added.filter((id) => id !== undefined)).to.have.length(1);
    await server.engine.settle();
    expect(await add()).to.be.a('string');
    await server.stop();
  });

  describe('of many tenants', () => {
    /** Runs everything, and returns the names in the order of their beginning and how many ran at a time. */
    async function runAll(
      limits: object,
      work: { partnerId: string; target?: string; n: number; isUrgent?: boolean }[],
    ) {
      const kind = kindOf({ limits: { inProcess: 4, ...limits } });
      const server = bench.server();
      const order: number[] = [];
      const running = new Map<string, number>();
      let most: Record<string, number> = {};
      const count = (key: string, by: number) => {
        const now = (running.get(key) ?? 0) + by;
        running.set(key, now);
        most = { ...most, [key]: Math.max(most[key] ?? 0, now) };
      };
      const inputs = new Map(work.map((one) => [one.n, one]));
      server.engine.add(kind, {
        steps: {
          async begin({ input: { n } }) {
            order.push(n);
            const { partnerId, target = 'none' } = inputs.get(n)!;
            for (const key of ['all', partnerId, target]) count(key, 1);
            await new Promise((resolve) => setTimeout(resolve, 3));
            for (const key of ['all', partnerId, target]) count(key, -1);
            return { end: { status: 'completed' } };
          },
        },
      });
      for (const { n, ...options } of work) await server.enqueue(kind, { n }, options);
      await server.engine.settle();
      expect((await bench.rows()).map((row) => row.status)).to.deep.equal(work.map(() => 'completed'));
      await server.stop();
      return { order, most };
    }

    it('takes turns: a tenant with much does not hold up one with little', async () => {
      const [much, little] = [await bench.partner(), await bench.partner()];
      const work = [
        ...Array.from({ length: 20 }, (_, n) => ({ partnerId: much, n })),
        { partnerId: little, n: 100 },
        { partnerId: little, n: 101 },
      ];
      const { order, most } = await runAll({}, work);
      expect(order.indexOf(100)).to.be.below(4);
      expect(order.indexOf(101)).to.be.below(8);
      expect(most['all']).to.equal(4);
    });

    it('keeps the limits of a tenant, of a target, and of the cluster', async () => {
      const [one, other] = [await bench.partner(), await bench.partner()];
      const work = Array.from({ length: 18 }, (_, n) => ({
        partnerId: n % 3 === 0 ? other : one,
        target: n % 2 === 0 ? 'bucket a' : 'bucket b',
        n,
      }));
      const { most } = await runAll({ inProcess: 10, ofPartner: 3, ofTarget: 2, inCluster: 3 }, work);
      expect(most['all']).to.be.at.most(3);
      expect(most[one]).to.be.at.most(3);
      expect(most['bucket a']).to.be.at.most(2);
      expect(most['bucket b']).to.be.at.most(2);
    });

    it('keeps the limit that a piece of work has for its target', async () => {
      const partnerId = await bench.partner();
      const work = Array.from({ length: 16 }, (_, n) =>
        n % 2 === 0
          ? { partnerId, target: 'folder', targetLimit: 1, n }
          : { partnerId, target: 'bucket', targetLimit: 3, n },
      );
      const { most } = await runAll({ inProcess: 10, ofTarget: 9 }, work);
      expect(most['folder']).to.equal(1);
      expect(most['bucket']).to.be.within(2, 3);
    });

    it('a full target holds up only what needs it', async () => {
      const partnerId = await bench.partner();
      const work = [
        ...Array.from({ length: 12 }, (_, n) => ({ partnerId, target: 'slow', n })),
        { partnerId, target: 'free', n: 50 },
      ];
      const { order } = await runAll({ inProcess: 4, ofTarget: 1 }, work);
      expect(order.indexOf(50)).to.be.below(3);
    });

    it('begins with what people wait for', async () => {
      const partnerId = await bench.partner();
      const work = [
        ...Array.from({ length: 10 }, (_, n) => ({ partnerId, n })),
        { partnerId, n: 50, isUrgent: true },
      ];
      const { order } = await runAll({ inProcess: 2 }, work);
      expect(order.indexOf(50)).to.be.below(2);
    });
  });

  describe('of a server that is gone', () => {
    it('is taken over, and what the former one still writes changes nothing', async () => {
      // One place, which the frozen step has: the first server does not begin the work again itself.
      const kind = kindOf({ limits: { inProcess: 1 } });
      const [first, second] = [bench.server({ pollMs: 3_600_000 }), bench.server()];
      const begun = gate();
      const late = gate();
      const settled: string[] = [];
      first.engine.add(kind, {
        steps: {
          async begin() {
            begun.open();
            await late.opened;
            return { end: { status: 'failed', code: 'LATE' } };
          },
        },
        settle: async () => void settled.push('first'),
      });
      second.engine.add(kind, {
        steps: { begin: async ({ attempt }) => ({ end: { status: 'completed', result: attempt } }) },
        settle: async (_tx, _work, { result }) => void settled.push(`second ${String(result)}`),
      });
      first.engine.start();
      const id = await first.enqueue(kind, { n: 1 });
      await begun.opened;
      // Its process is frozen: it lives, and does not renew its lease.
      await bench.owner(`update work_holders set alive_until = now() - interval '1 s'`);
      await second.engine.settle();
      expect(await status(id)).to.equal('completed');
      late.open();
      await eventually(
        () => first.lines.some(({ event }) => event === 'work.lease_lost'),
        (isLost) => isLost,
      );
      expect(settled).to.deep.equal(['second 2']);
      expect(await bench.row(id)).to.deep.include({ status: 'completed', error_code: null });
      await Promise.all([first.stop(), second.stop()]);
    });

    it('keeps its place before what was added after it', async () => {
      const kind = kindOf({ limits: { inProcess: 1 } });
      const [first, second] = [bench.server({ pollMs: 3_600_000 }), bench.server()];
      const begun = gate();
      const late = gate();
      first.engine.add(kind, {
        steps: {
          async begin() {
            begun.open();
            await late.opened;
            return { end: { status: 'completed' } };
          },
        },
      });
      const order: number[] = [];
      second.engine.add(kind, {
        steps: {
          async begin({ input }) {
            order.push(input.n);
            return { end: { status: 'completed' } };
          },
        },
      });
      first.engine.start();
      await first.enqueue(kind, { n: 1 });
      await begun.opened;
      await second.enqueue(kind, { n: 2 });
      await second.enqueue(kind, { n: 3 });
      await bench.owner(`update work_holders set alive_until = now() - interval '1 s'`);
      await second.engine.settle();
      expect(order).to.deep.equal([1, 2, 3]);
      late.open();
      await Promise.all([first.stop(), second.stop()]);
    });

    it('stores no more facts of a step that holds its claim while it stores them', async () => {
      const kind = kindOf({ limits: { inProcess: 1 } });
      const [first, second] = [bench.server({ pollMs: 3_600_000 }), bench.server()];
      const begun = gate();
      const late = gate();
      const holds: string[] = [];
      const ended = gate();
      first.engine.add(kind, {
        steps: {
          async begin(run) {
            const hold = () =>
              withSystem(first.db, 'store facts', (tx) => run.hold(tx)).then(
                () => holds.push('held'),
                (error: Error) => holds.push(error.message),
              );
            await hold();
            begun.open();
            await late.opened;
            await hold();
            ended.open();
            return { end: { status: 'failed' } };
          },
        },
      });
      second.engine.add(kind, { steps: { begin: async () => ({ end: { status: 'completed' } }) } });
      first.engine.start();
      await first.enqueue(kind, { n: 1 });
      await begun.opened;
      await bench.owner(`update work_holders set alive_until = now() - interval '1 s'`);
      await second.engine.settle();
      late.open();
      await ended.opened;
      expect(holds).to.deep.equal([
        'held',
        'The lease of the work was lost: another server may have begun it again.',
      ]);
      await Promise.all([first.stop(), second.stop()]);
    });

    it('that comes back works under a new name', async () => {
      const kind = kindOf();
      const server = bench.server();
      server.engine.add(kind, { steps: { begin: async () => ({ end: { status: 'completed' } }) } });
      await server.enqueue(kind, { n: 1 });
      await server.engine.settle();
      await bench.owner(`update work_holders set alive_until = now() - interval '1 s'`);
      const id = await server.enqueue(kind, { n: 2 });
      server.engine.start();
      await eventually(
        () => status(id),
        (found) => found === 'completed',
        60_000,
      );
      await server.stop();
    });

    it('that stops in order gives its work back, and no attempt is counted', async () => {
      const kind = kindOf();
      const [first, second] = [bench.server(), bench.server()];
      const begun = gate();
      first.engine.add(kind, {
        steps: {
          async begin(run) {
            begun.open();
            return untilAborted(run);
          },
        },
      });
      const attempts: number[] = [];
      second.engine.add(kind, {
        steps: {
          async begin({ attempt }) {
            attempts.push(attempt);
            return { end: { status: 'completed' } };
          },
        },
      });
      first.engine.start();
      const id = await first.enqueue(kind, { n: 1 });
      await begun.opened;
      await first.stop();
      await second.engine.settle();
      expect(await status(id)).to.equal('completed');
      expect(attempts).to.deep.equal([1]);
      await second.stop();
    });
  });

  it('of a kind or with an input that this release does not know is left, or fails with a reason', async () => {
    const kind = kindOf();
    const server = bench.server();
    const unknown = await server.enqueue(kindOf({ kind: 'test.newer' }), { n: 1 });
    const broken = await server.enqueue(kind, { n: 1 });
    await bench.owner(`update work set input = '{"n": "secret"}' where id = $1`, [broken]);
    server.engine.add(kind, { steps: { begin: async () => ({ end: { status: 'completed' } }) } });
    await server.engine.settle();
    expect(await status(unknown)).to.equal('pending');
    const { error_code: code, error_message: message } = await bench.row(broken);
    expect([code, message]).to.deep.equal([
      'INPUT_UNREADABLE',
      'This release cannot read the input of test: n',
    ]);
    await server.stop();
  });
});

const refusal = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'not refused',
    (error: { code?: string; message: string }) => error.code ?? error.message,
  );
