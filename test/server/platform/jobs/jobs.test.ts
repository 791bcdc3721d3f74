import { expect } from 'chai';
import { z } from 'zod';
import { withTenant } from '../../../../src/platform/db/transaction.ts';
import { defineJob, type JobRun, PermanentJobFailure } from '../../../../src/platform/jobs/definition.ts';
import { JobStore } from '../../../../src/platform/jobs/job.queries.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import { createJobsBench, type JobsBench } from '../../../support/platform/jobs/jobs-support.ts';

const Input = z.object({ n: z.number() });
const QUICK_RETRY = { firstMs: 10, longestMs: 40 };

/** Resolves when the run is aborted. */
const untilAborted = ({ signal }: Pick<JobRun, 'signal'>) =>
  new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });

describe('background jobs', () => {
  let bench: JobsBench;
  beforeEach(async () => {
    bench = await createJobsBench();
  });
  afterEach(async () => bench.drop());

  const state = async (id: string) => (await bench.rows()).find((row) => row.id === id)?.state;
  const untilState = (id: string, wanted: string) =>
    eventually(
      () => state(id),
      (found) => found === wanted,
    );
  const partner = async () => {
    const id = newId();
    await bench.owner(
      `insert into partners (id, name, slug, type, plan, status) values ($1, 'P', $2, 'msp', 'free', 'active')`,
      [id, id],
    );
    return id;
  };

  it('run, and answer what they have found', async () => {
    const job = defineJob({ name: 'test.double', input: Input, result: z.number() });
    const server = bench.server();
    server.handle(job, async ({ input }) => input.n * 2);
    server.start();
    const { id, added } = await server.enqueue(undefined, job, { n: 21 });
    expect(added).to.equal(true);
    await untilState(id, 'succeeded');
    expect(await server.progress(job, id)).to.deep.include({ state: 'succeeded', attempt: 1, result: 42 });
  });

  it('are due by the schedule of the newest release, whatever part of it has changed', async () => {
    const job = defineJob({ name: 'test.daily', input: Input });
    const DAILY = { cron: '17 3 * * *', timeZone: 'Etc/GMT-1' };
    const dueAfterStart = async (schedule: typeof DAILY) => {
      const server = bench.server();
      server.handle(job, async () => {});
      server.schedule(job, schedule, { n: 1 });
      await server.settle();
      await server.stop();
      const [row] = await bench.owner<{ next_at: Date }>('select next_at from job_schedules');
      return row?.next_at.toISOString().slice(11, 16);
    };
    expect(await dueAfterStart(DAILY)).to.equal('02:17');
    expect(await dueAfterStart({ ...DAILY, cron: '18 3 * * *' })).to.equal('02:18');
    expect(await dueAfterStart({ cron: '18 3 * * *', timeZone: 'Etc/GMT-3' })).to.equal('00:18');
    await bench.owner(`update job_schedules set next_at = now() + interval '1 day', time_zone = 'Etc/GMT-3'`);
    const planned = await bench.owner('select next_at from job_schedules');
    await dueAfterStart({ cron: '18 3 * * *', timeZone: 'Etc/GMT-3' });
    expect(await bench.owner('select next_at from job_schedules'), 'unchanged, it stays').to.deep.equal(
      planned,
    );
  });

  it('wait in the database for a server that can run them', async () => {
    const job = defineJob({ name: 'test.later', input: Input });
    const first = bench.server();
    const { id } = await first.enqueue(undefined, job, { n: 1 });
    await first.stop();
    const second = bench.server();
    const seen: number[] = [];
    second.handle(job, async ({ input }) => void seen.push(input.n));
    second.start();
    await untilState(id, 'succeeded');
    expect(seen).to.deep.equal([1]);
  });

  it('that another server has added are begun at once if the server is told to look', async () => {
    const job = defineJob({ name: 'test.told', input: Input });
    // By itself it looks once, at its start.
    const server = bench.server({ pollMs: 3_600_000 });
    const seen: number[] = [];
    server.handle(job, async ({ input }) => void seen.push(input.n));
    server.start();
    const own = await server.enqueue(undefined, job, { n: 1 });
    await untilState(own.id, 'succeeded');
    const { id } = await bench.server().enqueue(undefined, job, { n: 2 });
    server.wake();
    await untilState(id, 'succeeded');
    expect(seen).to.deep.equal([1, 2]);
  });

  it('that began again here are still followed when the run before, whose lease was lost, ends late', async () => {
    const job = defineJob({ name: 'test.again-here', input: Input, concurrency: 2 });
    const server = bench.server();
    let endFirst = () => {};
    const runs: JobRun[] = [];
    server.handle(job, async (run) => {
      runs.push(run);
      if (runs.length > 1) return untilAborted(run);
      return new Promise<void>((resolve) => {
        endFirst = resolve;
      });
    });
    server.start();
    const { id } = await server.enqueue(undefined, job, { n: 1 });
    await eventually(
      () => runs.length,
      (begun) => begun === 1,
    );
    // As another server does when the lease has ended.
    await bench.owner(
      `update background_jobs set state = 'queued', run_at = now(), lease_id = null, lease_until = null where id = $1`,
      [id],
    );
    server.wake();
    await eventually(
      () => runs.length,
      (begun) => begun === 2,
    );
    endFirst();
    await eventually(
      () => server.lines.some(({ event }) => event === 'job.lease_lost'),
      (isLost) => isLost,
    );
    expect(await server.cancel(id)).to.equal(true);
    server.wake();
    await untilState(id, 'cancelled');
    expect(runs.map(({ attempt, signal }) => [attempt, signal.aborted])).to.deep.equal([
      [1, false],
      [2, true],
    ]);
  });

  it('are kept by the lease under which they run, and by none before it', async () => {
    const job = defineJob({ name: 'test.leased', input: Input });
    const server = bench.server();
    const store = new JobStore(server.db);
    const { id } = await server.enqueue(undefined, job, { n: 1 });
    const claim = { name: job.name, free: 1, reserved: 0, inCluster: 1 };
    const [before] = await store.claim({ ...claim, leaseMs: -1 });
    await store.takeOver();
    const [now] = await store.claim({ ...claim, leaseMs: 60_000 });
    if (before === undefined || now === undefined) throw new Error('the job was not claimed');
    expect([before.id, now.id, now.attempt]).to.deep.equal([id, id, 2]);
    expect([...(await store.renew([before], 60_000))]).to.deep.equal([]);
    expect([...(await store.renew([now], 60_000))]).to.deep.equal([id]);
  });

  it('are added with the deed of a tenant, or not at all', async () => {
    const job = defineJob({ name: 'test.deed', input: Input });
    const server = bench.server();
    server.handle(job, async () => undefined);
    server.start();
    const partnerId = await partner();
    const tenant = { scope: 'partner', userId: null, partnerId, orgAccess: 'all', orgIds: [] } as const;
    const undone = withTenant(server.db, tenant, async (tx) => {
      await server.enqueue(tx, job, { n: 1 }, { partnerId });
      throw new Error('the deed fails');
    });
    expect(await undone.catch((error: Error) => error.message)).to.equal('the deed fails');
    const { id } = await withTenant(server.db, tenant, (tx) =>
      server.enqueue(tx, job, { n: 2 }, { partnerId }),
    );
    await untilState(id, 'succeeded');
    expect((await bench.rows()).map((row) => row.id)).to.deep.equal([id]);
  });

  it('refuse input that does not fit, before anything is stored', async () => {
    const job = defineJob({ name: 'test.fit', input: Input });
    const server = bench.server();
    const refused = await server
      .enqueue(undefined, job, { n: 'one' } as never)
      .catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(z.ZodError);
    expect(await bench.rows()).to.deep.equal([]);
  });

  it('are added once for each key, however many servers try at once', async () => {
    const job = defineJob({ name: 'test.once', input: Input });
    const servers = [bench.server(), bench.server()];
    const seen: string[] = [];
    for (const server of servers) {
      server.handle(job, async ({ id }) => void seen.push(id));
      server.start();
    }
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) => servers[n % 2]!.enqueue(undefined, job, { n }, { key: 'same' })),
    );
    expect(new Set(answers.map(({ id }) => id)).size).to.equal(1);
    expect(answers.filter(({ added }) => added)).to.have.length(1);
    await untilState(answers[0]!.id, 'succeeded');
    const again = await servers[1]!.enqueue(undefined, job, { n: 99 }, { key: 'same' });
    expect(again).to.deep.equal({ id: answers[0]!.id, added: false });
    expect(seen).to.deep.equal([answers[0]!.id]);
  });

  it('are tried again after a failure, later each time, and fail for good after their last attempt', async () => {
    const job = defineJob({ name: 'test.flaky', input: Input, attempts: 3, backOff: QUICK_RETRY });
    const server = bench.server();
    server.handle(job, async ({ attempt, input }) => {
      if (attempt < input.n) throw new Error(`not at attempt ${attempt}`);
    });
    server.start();
    const [good, bad] = [
      await server.enqueue(undefined, job, { n: 3 }),
      await server.enqueue(undefined, job, { n: 9 }),
    ];
    await untilState(good.id, 'succeeded');
    await untilState(bad.id, 'failed');
    expect(await server.progress(job, bad.id)).to.deep.include({ attempt: 3, error: 'not at attempt 3' });
    const waits = server.lines
      .filter(({ event, jobId }) => event === 'job.attempt_failed' && jobId === bad.id)
      .map(({ retryMs }) => retryMs as number);
    expect(waits).to.have.length(2);
    expect(waits[1]).to.be.greaterThan(waits[0]!);
    expect(server.lines.find(({ event }) => event === 'job.failed')).to.include({
      jobId: bad.id,
      level: 'error',
    });
  });

  it('are not tried again if that cannot help', async () => {
    const job = defineJob({ name: 'test.hopeless', input: Input });
    const server = bench.server();
    server.handle(job, async () => {
      throw new PermanentJobFailure('there is no such thing');
    });
    server.start();
    const { id } = await server.enqueue(undefined, job, { n: 1 });
    await untilState(id, 'failed');
    expect(await server.progress(job, id)).to.deep.include({ attempt: 1, error: 'there is no such thing' });
  });

  it('fail if a later release no longer understands their input, and the values stay out of the log', async () => {
    const before = defineJob({ name: 'test.renamed', input: z.object({ token: z.string() }) });
    const after = defineJob({ name: 'test.renamed', input: Input });
    const server = bench.server();
    server.handle(after, async () => undefined);
    server.start();
    const { id } = await server.enqueue(undefined, before, { token: 's3cr3t' });
    await untilState(id, 'failed');
    expect((await server.progress(after, id))?.error).to.contain('n');
    expect(JSON.stringify(server.lines)).not.to.contain('s3cr3t');
  });

  it('that are bad do not keep others from running', async () => {
    const bad = defineJob({ name: 'test.bad', input: Input, backOff: QUICK_RETRY });
    const stuck = defineJob({ name: 'test.stuck', input: Input });
    const good = defineJob({ name: 'test.good', input: Input });
    const server = bench.server();
    server.handle(bad, () => Promise.reject(new Error('always')));
    server.handle(stuck, untilAborted);
    server.handle(good, async () => undefined);
    server.start();
    for (let n = 0; n < 5; n++) {
      await server.enqueue(undefined, bad, { n });
      await server.enqueue(undefined, stuck, { n });
    }
    const { id } = await server.enqueue(undefined, good, { n: 1 });
    await untilState(id, 'succeeded');
  });

  it('are not begun after their deadline', async () => {
    const job = defineJob({ name: 'test.late', input: Input });
    const server = bench.server();
    const { id } = await server.enqueue(undefined, job, { n: 1 }, { deadlineMs: 0 });
    let ran = false;
    server.handle(job, async () => void (ran = true));
    server.start();
    await untilState(id, 'failed');
    expect(ran).to.equal(false);
    expect((await server.progress(job, id))?.error).to.contain('deadline');
  });

  it('are sealed if their input is secret, which ends with the job', async () => {
    const job = defineJob({ name: 'test.secret', input: z.object({ link: z.string() }), isSealed: true });
    const server = bench.server();
    const { id } = await server.enqueue(undefined, job, { link: 's3cr3t-l1nk' });
    const stored = () =>
      bench.owner<{ input: unknown; sealed_input: string | null }>('select * from background_jobs');
    const [waiting] = await stored();
    expect(waiting?.input).to.equal(null);
    expect(waiting?.sealed_input).to.match(/^v1\./);
    expect(JSON.stringify(waiting)).not.to.contain('s3cr3t');
    let seen = '';
    server.handle(job, async ({ input }) => void (seen = input.link));
    server.start();
    await untilState(id, 'succeeded');
    expect(seen).to.equal('s3cr3t-l1nk');
    expect((await stored())[0]?.sealed_input).to.equal(null);
  });

  describe('that a person cancels', () => {
    it('are not begun', async () => {
      const job = defineJob({ name: 'test.cancelled', input: Input });
      const server = bench.server();
      const { id } = await server.enqueue(undefined, job, { n: 1 });
      expect(await server.cancel(id)).to.equal(true);
      expect(await state(id)).to.equal('cancelled');
      expect(await server.cancel(id)).to.equal(false);
      expect(await server.cancel(newId())).to.equal(false);
    });

    it('are aborted on the server that runs them, whichever was asked', async () => {
      const job = defineJob({ name: 'test.aborted', input: Input });
      const [runner, other] = [bench.server(), bench.server()];
      runner.handle(job, untilAborted);
      runner.start();
      const { id } = await other.enqueue(undefined, job, { n: 1 });
      await untilState(id, 'running');
      expect(await other.cancel(id)).to.equal(true);
      await untilState(id, 'cancelled');
    });
  });

  describe('of several partners', () => {
    it('take turns, so that the few of one do not wait for the many of another', async () => {
      const job = defineJob({ name: 'test.fair', input: Input });
      const server = bench.server();
      const [busy, quiet] = [await partner(), await partner()];
      for (let n = 0; n < 20; n++) await server.enqueue(undefined, job, { n }, { partnerId: busy });
      for (let n = 0; n < 3; n++) await server.enqueue(undefined, job, { n }, { partnerId: quiet });
      const order: (string | null)[] = [];
      server.handle(job, async ({ partnerId }) => void order.push(partnerId));
      server.start();
      await eventually(
        () => order.length,
        (length) => length === 23,
      );
      expect(order.lastIndexOf(quiet)).to.be.lessThan(6);
      expect(order.filter((one) => one === quiet)).to.have.length(3);
    });

    it('find a place kept for them while the long work of another fills the rest', async () => {
      const job = defineJob({ name: 'test.long', input: Input, concurrency: 4 });
      const server = bench.server();
      const [busy, quiet] = [await partner(), await partner()];
      server.handle(job, (run) => (run.partnerId === busy ? untilAborted(run) : Promise.resolve()));
      server.start();
      for (let n = 0; n < 10; n++) await server.enqueue(undefined, job, { n }, { partnerId: busy });
      const running = async () => (await bench.rows()).filter((row) => row.state === 'running').length;
      await eventually(running, (count) => count === 3);
      const { id } = await server.enqueue(undefined, job, { n: 1 }, { partnerId: quiet });
      await untilState(id, 'succeeded');
      expect(await running()).to.equal(3);
    });
  });

  it('of which one at a time may run in the cluster do so one at a time', async () => {
    const job = defineJob({ name: 'test.alone', input: Input, concurrency: 3, inCluster: 1 });
    let [now, most, done] = [0, 0, 0];
    for (const server of [bench.server(), bench.server()]) {
      server.handle(job, async () => {
        now += 1;
        most = Math.max(most, now);
        await new Promise(setImmediate);
        now -= 1;
        done += 1;
      });
      server.start();
      for (let n = 0; n < 5; n++) await server.enqueue(undefined, job, { n });
    }
    await eventually(
      () => done,
      (count) => count === 10,
    );
    expect(most).to.equal(1);
  });

  it('are counted in the metrics', async () => {
    const job = defineJob({ name: 'test.counted', input: Input, attempts: 1 });
    const server = bench.server();
    server.handle(job, () => Promise.reject(new Error('no')));
    const { id } = await server.enqueue(undefined, job, { n: 1 });
    await server.enqueue(undefined, job, { n: 2 }, { delayMs: 3_600_000 });
    server.start();
    await untilState(id, 'failed');
    const text = await eventually(
      () => server.metrics.registry.metrics(),
      (all) => all.includes('muster_job_attempts_total{job="test.counted",outcome="failed"} 1'),
    );
    expect(text).to.contain('muster_jobs_queued{job="test.counted"}');
    expect(text).to.contain('muster_jobs_oldest_seconds{job="test.counted"}');
  });
});
