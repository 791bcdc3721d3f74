import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import {
  type Ending,
  JobStore,
  lockDueSchedules,
  queueState,
  setNextRun,
  storeSchedule,
} from '../../../../src/platform/jobs/job.queries.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { createJobsBench, type JobsBench } from '../../../support/platform/jobs/jobs-support.ts';

const NAME = 'test.work';
const DAY_SECONDS = 86_400;
const PAST = `now() - interval '1 minute'`;
const FUTURE = `now() + interval '1 minute'`;
const EVERY_ENDING: readonly Ending[] = [
  { as: 'succeeded', result: 1 },
  { as: 'failed', reason: 'r' },
  { as: 'cancelled', reason: 'r' },
  { as: 'again', reason: 'r', afterMs: 60_000 },
  { as: 'handedBack', reason: 'r' },
];

interface Stored {
  state: string;
  attempt: number;
  error: string | null;
  result: unknown;
  progress: unknown;
  sealed_input: string | null;
  lease_id: string | null;
  lease_until: Date | null;
  cancel_requested: boolean;
  has_finished: boolean;
  /** Seconds from now. */
  due_in: number;
  kept_for: number | null;
}

describe('the store of background jobs', () => {
  let bench: JobsBench;
  let store: JobStore;
  let other: JobStore;
  before(async () => {
    bench = await createJobsBench();
    store = new JobStore(bench.server().db);
    other = new JobStore(bench.server().db);
  });
  after(async () => bench.drop());
  beforeEach(async () => bench.owner('truncate background_jobs, job_schedules'));

  /** Stores a job that is due. The values are SQL. */
  async function add(values: Record<string, string> = {}): Promise<string> {
    const id = newId();
    const row = {
      name: `'${NAME}'`,
      sealed_input: `'sealed'`,
      run_at: PAST,
      deadline: FUTURE,
      max_attempts: '3',
      ...values,
    };
    await bench.owner(
      `insert into background_jobs (id, ${Object.keys(row).join(', ')}) values ($1, ${Object.values(row).join(', ')})`,
      [id],
    );
    return id;
  }
  const running = (values: Record<string, string> = {}) =>
    add({ state: `'running'`, lease_id: 'gen_random_uuid()', lease_until: FUTURE, attempt: '1', ...values });
  const lost = (values: Record<string, string> = {}) => running({ lease_until: PAST, ...values });
  const ended = (state: string, values: Record<string, string> = {}) =>
    add({ state: `'${state}'`, finished_at: PAST, expires_at: FUTURE, ...values });

  async function stored(id: string): Promise<Stored> {
    const [row] = await bench.owner<Stored>(
      `select *, finished_at is not null as has_finished, extract(epoch from run_at - now())::float8 as due_in,
        extract(epoch from expires_at - now())::float8 as kept_for
      from background_jobs where id = $1`,
      [id],
    );
    if (row === undefined) throw new Error(`the job ${id} is not there`);
    return row;
  }
  const claim = async (options: Partial<Parameters<JobStore['claim']>[0]> = {}) =>
    store.claim({ name: NAME, free: 9, reserved: 0, inCluster: 9, leaseMs: 60_000, ...options });

  it('writes nothing by a lease under which the job no longer runs', async () => {
    const id = await add();
    const [before] = await claim({ leaseMs: -60_000 });
    await store.takeOver();
    await bench.owner('update background_jobs set run_at = now()');
    const [now] = await claim();
    if (before === undefined || now === undefined) throw new Error('the job was not claimed');
    const untouched = await stored(id);
    expect(await store.saveProgress(before, { percent: 50 })).to.equal(false);
    for (const ending of EVERY_ENDING) expect(await store.end(before, ending), ending.as).to.equal(false);
    const { due_in: _, ...after } = await stored(id);
    expect(untouched).to.deep.include(after);
    expect(await store.saveProgress(now, { percent: 60 })).to.equal(true);
    expect(await stored(id)).to.deep.include({ state: 'running', progress: { percent: 60 } });
  });

  it('renews a lease from now on', async () => {
    const id = await add();
    const held = await claim({ leaseMs: 1_000 });
    const { lease_until: until } = await stored(id);
    await store.renew(held, 60_000);
    expect((await stored(id)).lease_until?.getTime()).to.be.greaterThan((until?.getTime() ?? 0) + 50_000);
  });

  for (const [as, days, state] of [
    ['succeeded', 1, 'succeeded'],
    ['failed', 14, 'failed'],
    ['cancelled', 14, 'cancelled'],
  ] as const) {
    it(`keeps a job that has ${state} for ${days} days, without its secrets`, async () => {
      const id = await add({ error: `'of an earlier attempt'` });
      const [job] = await claim();
      const ending = EVERY_ENDING.find((each) => each.as === as);
      if (job === undefined || ending === undefined) throw new Error('the job was not claimed');
      await store.end(job, ending);
      const row = await stored(id);
      expect(row).to.deep.include({ state, sealed_input: null, lease_id: null, lease_until: null });
      expect(row).to.deep.include({ has_finished: true, error: as === 'succeeded' ? null : 'r' });
      expect(row.kept_for).to.be.closeTo(days * DAY_SECONDS, 60);
    });
  }

  it('lets a failed attempt wait, and one that was handed back go on at once and uncounted', async () => {
    const id = await add();
    for (const [ending, attempt, dueIn] of [
      [{ as: 'again', reason: 'failed', afterMs: 600_000 }, 1, 600],
      [{ as: 'handedBack', reason: 'stopped' }, 1, 0],
    ] as const) {
      await bench.owner(`update background_jobs set run_at = now() - interval '1 hour'`);
      const [job] = await claim();
      if (job === undefined) throw new Error('the job was not claimed');
      await store.end(job, ending);
      const row = await stored(id);
      expect(row).to.deep.include({ state: 'queued', attempt, error: ending.reason, sealed_input: 'sealed' });
      expect(row).to.deep.include({ lease_id: null, lease_until: null, has_finished: false });
      expect(row.due_in).to.be.closeTo(dueIn, 60);
    }
  });

  describe('claims', () => {
    it('what is due before its deadline, waits, and has the name', async () => {
      const due = await add();
      await add({ run_at: FUTURE });
      await add({ deadline: PAST });
      await add({ name: `'test.other'` });
      await running();
      await ended('failed');
      expect((await claim()).map(({ id }) => id)).to.deep.equal([due]);
    });

    it('no more than may run in the cluster, and counts neither other names nor ended jobs', async () => {
      await running();
      await running({ name: `'test.other'` });
      await ended('succeeded');
      for (let n = 0; n < 3; n++) await add();
      expect(await claim({ inCluster: 3 })).to.have.length(2);
      expect(await claim({ inCluster: 3 })).to.have.length(0);
    });

    it('first for the partner whose last job of that name was begun the longest ago', async () => {
      const [early, late, never] = [newId(), newId(), newId()];
      for (const [id, begun] of [
        [early, '2 hours'],
        [late, '1 hour'],
        [never, undefined],
      ]) {
        await bench.owner(
          `insert into partners (id, name, slug, type, plan, status) values ($1, 'P', $2, 'msp', 'free', 'active')`,
          [id, id],
        );
        const partner = { partner_id: `'${id}'` };
        if (begun === undefined) continue;
        await ended('succeeded', { ...partner, started_at: `now() - interval '${begun}'` });
      }
      // Of another name, which gives no place in the turns of this one.
      await ended('succeeded', { partner_id: `'${early}'`, started_at: 'now()', name: `'test.other'` });
      await add({ partner_id: `'${late}'`, run_at: `now() - interval '1 hour'` });
      await add({ partner_id: `'${early}'` });
      await add({ partner_id: `'${never}'` });
      // One that has had none yet comes before all others.
      expect((await claim({ free: 1 })).map(({ partnerId }) => partnerId)).to.deep.equal([never]);
      expect((await claim({ free: 1 })).map(({ partnerId }) => partnerId)).to.deep.equal([early]);
      expect((await claim({ free: 1 })).map(({ partnerId }) => partnerId)).to.deep.equal([late]);
    });
  });

  describe('takes over', () => {
    const taken = async () => (await store.takeOver()).map(({ id, state }) => [id, state]);

    it('a running job whose lease has passed, and no other', async () => {
      const id = await lost({ attempt: '2' });
      await running();
      await running({ deadline: PAST });
      await add();
      await ended('failed', { deadline: PAST, lease_until: PAST });
      expect(await taken()).to.deep.equal([[id, 'queued']]);
      const row = await stored(id);
      expect(row).to.deep.include({ lease_id: null, lease_until: null, has_finished: false, kept_for: null });
      expect(row).to.deep.include({ attempt: 2, sealed_input: 'sealed' });
      expect(row.error).to.contain('server that ran the job');
      expect(row.due_in).to.be.within(1, 10);
    });

    for (const [why, values, state] of [
      ['that was its last attempt', { attempt: '3' }, 'failed'],
      ['whose cancelling was asked for', { cancel_requested: 'true' }, 'cancelled'],
    ] as const) {
      it(`and ends a job ${why}`, async () => {
        const id = await lost(values);
        expect(await taken()).to.deep.equal([[id, state]]);
        const row = await stored(id);
        expect(row).to.deep.include({ has_finished: true, sealed_input: null, lease_until: null });
        expect(row.kept_for).to.be.closeTo(14 * DAY_SECONDS, 60);
      });
    }

    it('and fails a job that waits after its deadline, with the reason of its last attempt if it had one', async () => {
      const [fresh, tried] = [
        await add({ deadline: PAST }),
        await add({ deadline: PAST, error: `'earlier'` }),
      ];
      expect(await taken()).to.have.deep.members([
        [fresh, 'failed'],
        [tried, 'failed'],
      ]);
      expect((await stored(fresh)).error).to.contain('before its deadline');
      expect((await stored(fresh)).sealed_input).to.equal(null);
      expect((await stored(tried)).error).to.equal('earlier');
    });

    for (const [what, make] of [
      ['lost', () => lost()],
      ['late', () => add({ deadline: PAST })],
    ] as const) {
      it(`a ${what} job that another server has locked not at the same time`, async () => {
        const id = await make();
        await withSystem(bench.server().db, 'a server that changes the job', async (tx) => {
          await tx.raw(`set local lock_timeout = '1s'`);
          await tx.raw('select from background_jobs for update');
          expect(await taken()).to.deep.equal([]);
        });
        expect((await other.takeOver()).map((job) => job.id)).to.deep.equal([id]);
      });
    }
  });

  describe('cancels', () => {
    it('a waiting job at once', async () => {
      const id = await add();
      expect(await store.cancel(id)).to.equal('cancelled');
      const row = await stored(id);
      expect(row).to.deep.include({ state: 'cancelled', has_finished: true, sealed_input: null });
      expect(row.kept_for).to.be.closeTo(14 * DAY_SECONDS, 60);
    });

    it('a running job by a request, which leaves it what it needs to go on', async () => {
      const id = await running();
      expect(await store.cancel(id)).to.equal('running');
      const left = { state: 'running', cancel_requested: true, has_finished: false, kept_for: null };
      expect(await stored(id)).to.deep.include({ ...left, sealed_input: 'sealed' });
    });

    for (const state of ['succeeded', 'failed', 'cancelled']) {
      it(`nothing that has ${state}`, async () => {
        const id = await ended(state);
        expect(await store.cancel(id)).to.equal(undefined);
        expect(await stored(id)).to.deep.include({ state, cancel_requested: false });
      });
    }
  });

  describe('sees', () => {
    const NOTHING = { waiting: [], cancelled: [], overdue: false, scheduled: false };
    const look = async (ids: string[] = []) => store.look([NAME], ids, [NAME]);
    const schedule = async (name: string, nextAt: string) =>
      bench.owner(`insert into job_schedules values ($1, '* * * * *', 'UTC', ${nextAt})`, [name]);

    it('nothing to do if jobs run, have ended, or are for later or for others', async () => {
      const ids = [
        await running({ deadline: PAST }),
        await ended('failed', { deadline: PAST, lease_until: PAST }),
      ];
      await add({ run_at: FUTURE });
      await add({ name: `'test.other'` });
      await running({ cancel_requested: 'true' });
      await schedule(NAME, FUTURE);
      await schedule('test.other', PAST);
      expect(await look(ids)).to.deep.equal(NOTHING);
    });

    it('a due job, a cancelled one, and a due schedule', async () => {
      await add();
      const id = await running({ cancel_requested: 'true' });
      await schedule(NAME, PAST);
      expect(await look([id])).to.deep.equal({
        waiting: [NAME],
        cancelled: [id],
        overdue: false,
        scheduled: true,
      });
    });

    it('what is overdue: a lost lease, a passed deadline', async () => {
      await lost();
      expect(await look()).to.deep.equal({ ...NOTHING, overdue: true });
      await bench.owner('truncate background_jobs');
      await add({ run_at: FUTURE, deadline: PAST });
      expect(await look()).to.deep.equal({ ...NOTHING, overdue: true });
    });
  });

  it('counts by state, and the wait of those that are due', async () => {
    await add({ run_at: `now() - interval '30 seconds'` });
    await add({ run_at: FUTURE });
    await running({ run_at: `now() - interval '1 hour'` });
    await running({ name: `'test.other'`, lease_until: PAST });
    await ended('failed');
    await ended('failed', { finished_at: `now() - interval '25 hours'` });
    await ended('succeeded');
    const counted = (await store.count()).map(({ name, state, jobs, oldestSeconds }) => [
      name,
      state,
      jobs,
      Math.round(oldestSeconds / 10) * 10,
    ]);
    expect(counted).to.have.deep.members([
      [NAME, 'queued', 2, 30],
      [NAME, 'running', 1, 0],
      ['test.other', 'running', 1, 0],
      [NAME, 'failed', 2, 0],
    ]);
    const { lateSeconds, ...rest } = await queueState(bench.server().db);
    expect(lateSeconds).to.be.closeTo(30, 10);
    expect(rest).to.deep.equal({ waiting: 2, lost: 1, failedToday: [{ name: NAME, count: 1 }] });
  });

  describe('gives schedules', () => {
    const inSystem = <T>(work: Parameters<typeof withSystem<T>>[2]) =>
      withSystem(bench.server().db, 'schedules of the test', work);
    const plan = async (name: string, minutes: number) =>
      inSystem((tx) =>
        storeSchedule(tx, {
          name,
          cron: '* * * * *',
          timeZone: 'UTC',
          nextAt: new Date(Date.now() + minutes * 60_000),
        }),
      );

    it('that are due and asked for, each to one server, and moves on that one', async () => {
      await plan('test.a', -2);
      await plan('test.b', -1);
      await plan('test.later', 60);
      await plan('test.unasked', -1);
      const names = ['test.a', 'test.b', 'test.later'];
      await inSystem(async (tx) => {
        expect((await lockDueSchedules(tx, ['test.a'])).map(({ name }) => name)).to.deep.equal(['test.a']);
        const left = await inSystem((second) => lockDueSchedules(second, names));
        expect(left.map(({ name }) => name)).to.deep.equal(['test.b']);
        await setNextRun(tx, 'test.a', new Date(Date.now() + 3_600_000));
      });
      const due = await inSystem((tx) => lockDueSchedules(tx, names));
      expect(due.map(({ name }) => name)).to.deep.equal(['test.b']);
    });
  });
});
