import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { z } from 'zod';
import { defineJob, type JobRun } from '../../../../src/platform/jobs/definition.ts';
import { eventually } from '../../../support/eventually.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';
import {
  createJobsBench,
  type JobsBench,
  type TestServer,
} from '../../../support/platform/jobs/jobs-support.ts';
import { STEPS } from '../../../support/platform/jobs/steps-job.ts';

const Nothing = z.object({});

/** Rejects when the run is aborted, and never resolves. */
const untilAborted = ({ signal }: Pick<JobRun, 'signal'>) =>
  new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });

describe('background jobs when something fails', () => {
  let bench: JobsBench;
  beforeEach(async () => {
    bench = await createJobsBench();
  });
  afterEach(async () => bench.drop());

  const row = async (id: string) => (await bench.rows()).find((one) => one.id === id);
  const untilState = (id: string, wanted: string) =>
    eventually(
      () => row(id),
      (found) => found?.state === wanted,
    );
  const events = ({ lines }: TestServer) => lines.map(({ event }) => event);

  it('are taken over and go on where they were, when their process is killed with kill -9', async () => {
    const server = bench.server();
    const { id } = await server.enqueue(undefined, STEPS, {});
    const program = fileURLToPath(new URL('job-process.ts', import.meta.url));
    const child = spawn(process.execPath, ['--import', 'tsx', program, bench.database.appUrl], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = once(child, 'exit');
    try {
      await once(child.stdout, 'data');
      expect(await server.progress(STEPS, id)).to.deep.include({ state: 'running', progress: { done: 3 } });
    } finally {
      child.kill('SIGKILL');
    }
    await exited;
    server.handle(STEPS, async ({ progress }) => [4, 5].filter((step) => step > (progress?.done ?? 0)));
    server.start();
    await untilState(id, 'succeeded');
    expect(await server.progress(STEPS, id)).to.deep.include({ attempt: 2, result: [4, 5] });
    expect(events(server)).to.include('job.taken_over');
  });

  it('end as failed when every process that begins them is gone without a word', async () => {
    const job = defineJob({ name: 'test.poison', input: Nothing, attempts: 1 });
    const server = bench.server();
    const { id } = await server.enqueue(undefined, job, {});
    await bench.owner(
      `update background_jobs set state = 'running', attempt = 1, lease_id = id, lease_until = now() - interval '1 s'`,
    );
    server.handle(job, async () => {});
    server.start();
    await untilState(id, 'failed');
    expect(events(server)).to.include('job.failed');
  });

  it('keep their lease while they run for longer than it', async () => {
    const job = defineJob({ name: 'test.long', input: Nothing });
    const [server, other] = [bench.server({ leaseMs: 300 }), bench.server({ leaseMs: 300 })];
    let finish = () => {};
    const finished = new Promise<void>((resolve) => (finish = resolve));
    for (const one of [server, other]) {
      one.handle(job, () => finished);
      one.start();
    }
    const { id } = await server.enqueue(undefined, job, {});
    const leases = new Set<string>();
    await eventually(
      async () => {
        const [found] = await bench.owner<{ until: string | null }>(
          'select lease_until::text as until from background_jobs where id = $1',
          [id],
        );
        if (found?.until != null) leases.add(found.until);
        return leases.size;
      },
      (renewals) => renewals > 5,
    );
    finish();
    await untilState(id, 'succeeded');
    expect((await row(id))?.attempt).to.equal(1);
  });

  it('are aborted when another server has taken them over, and what they then answer is not stored', async () => {
    const job = defineJob({ name: 'test.overtaken', input: Nothing, result: z.string() });
    const server = bench.server({ leaseMs: 600 });
    let aborted = false;
    server.handle(job, async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      aborted = true;
      return 'too late';
    });
    server.start();
    const { id } = await server.enqueue(undefined, job, {});
    await untilState(id, 'running');
    await bench.owner(
      `update background_jobs set lease_id = gen_random_uuid(), lease_until = now() + interval '1 h'`,
    );
    await eventually(
      () => events(server),
      (all) => all.includes('job.lease_lost'),
    );
    expect(aborted).to.equal(true);
    expect(await server.progress(job, id)).to.deep.include({ state: 'running', result: undefined });
  });

  it('wait while the database is away, and go on when it is back', async () => {
    const job = defineJob({ name: 'test.away', input: Nothing, backOff: { firstMs: 10, longestMs: 20 } });
    const url = new URL(bench.database.appUrl);
    const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
    url.port = String(proxy.port);
    const server = bench.server({ leaseMs: 1000 }, url.href);
    const local = bench.server();
    let begun = 0;
    server.handle(job, async (run) => {
      begun += 1;
      if (begun === 1) await untilAborted(run);
    });
    server.start();
    const { id } = await local.enqueue(undefined, job, {});
    await untilState(id, 'running');
    await proxy.cut();
    const waiting = await local.enqueue(undefined, job, {});
    await eventually(
      () => events(server),
      (all) => all.includes('job.lease_lost') && all.includes('jobs.look_failed'),
    );
    await proxy.mend();
    await untilState(id, 'succeeded');
    await untilState(waiting.id, 'succeeded');
    expect(events(server).filter((event) => event === 'jobs.look_failed')).to.have.length(1);
    await server.stop();
    await proxy.cut();
  });

  it('store how they ended once the database is back, without running again', async () => {
    const job = defineJob({ name: 'test.ended', input: Nothing, result: z.string() });
    const url = new URL(bench.database.appUrl);
    const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
    url.port = String(proxy.port);
    const server = bench.server({ leaseMs: 20_000 }, url.href);
    server.handle(job, async () => {
      await proxy.cut();
      return 'done';
    });
    server.start();
    const { id } = await bench.server().enqueue(undefined, job, {});
    await eventually(
      () => events(server),
      (all) => all.includes('jobs.look_failed'),
    );
    await proxy.mend();
    await untilState(id, 'succeeded');
    expect((await row(id))?.attempt).to.equal(1);
    await server.stop();
    await proxy.cut();
  });

  describe('and their server stops', () => {
    it('may end by themselves for a while', async () => {
      const job = defineJob({ name: 'test.quick', input: Nothing, result: z.string() });
      const server = bench.server({ graceMs: 3000 });
      let finish = () => {};
      const finished = new Promise<void>((resolve) => (finish = resolve));
      server.handle(job, async () => {
        await finished;
        return 'done';
      });
      server.start();
      const { id } = await server.enqueue(undefined, job, {});
      const next = await server.enqueue(undefined, job, {});
      await untilState(id, 'running');
      const stopped = server.stop();
      finish();
      await stopped;
      expect((await row(id))?.state).to.equal('succeeded');
      expect((await row(next.id))?.state).to.equal('queued');
    });

    it('are given back at once, so that another server begins them without waiting for the lease', async () => {
      const job = defineJob({ name: 'test.handed', input: Nothing, attempts: 1 });
      const [first, second] = [bench.server({ leaseMs: 3_600_000 }), bench.server()];
      first.handle(job, untilAborted);
      first.start();
      const { id } = await first.enqueue(undefined, job, {});
      await untilState(id, 'running');
      await first.stop();
      expect(events(first)).to.include('job.handed_back');
      second.handle(job, async () => {});
      second.start();
      await untilState(id, 'succeeded');
    });

    it('do not hold it up if their handler does not heed the signal', async () => {
      const job = defineJob({ name: 'test.deaf', input: Nothing });
      const server = bench.server({ graceMs: 10, closeMs: 50 });
      server.handle(job, () => new Promise(() => {}));
      server.start();
      const { id } = await server.enqueue(undefined, job, {});
      await untilState(id, 'running');
      await server.stop();
      expect(events(server)).to.include('jobs.left_running');
      expect((await row(id))?.state).to.equal('running');
    });
  });

  describe('and are due again and again', () => {
    const DAILY = { cron: '17 3 * * *', timeZone: 'Europe/Berlin' };
    const job = defineJob({ name: 'test.daily', input: Nothing });
    const makeDue = () =>
      bench.owner(`update job_schedules set next_at = now() - interval '3 days' returning next_at`);

    it('are added once for all servers, and one run makes up for all times that were missed', async () => {
      const servers = [bench.server(), bench.server()];
      let runs = 0;
      for (const server of servers) {
        server.handle(job, async () => void (runs += 1));
        server.schedule(job, DAILY, {});
        server.start();
      }
      const schedules = () => bench.owner<{ next_at: Date }>('select next_at from job_schedules');
      await eventually(schedules, (found) => found.length === 1);
      expect(await bench.rows()).to.deep.equal([]);
      for (const round of [1, 2]) {
        await makeDue();
        await eventually(
          () => runs,
          (count) => count === round,
        );
        const [schedule] = await schedules();
        expect(schedule!.next_at.getTime()).to.be.greaterThan(Date.now());
      }
      await Promise.all(servers.map((server) => server.stop()));
      expect(await bench.rows()).to.have.length(2);
    });

    it('follow a schedule that a release has changed', async () => {
      const before = bench.server();
      before.handle(job, async () => {});
      before.schedule(job, DAILY, {});
      before.start();
      const next = async () => (await bench.owner<{ next_at: Date }>('select next_at from job_schedules'))[0];
      const planned = await eventually(next, (found) => found !== undefined);
      await before.stop();
      const after = bench.server();
      after.handle(job, async () => {});
      after.schedule(job, { ...DAILY, cron: '18 3 * * *' }, {});
      after.start();
      await eventually(next, (found) => found!.next_at.getTime() - planned!.next_at.getTime() === 60_000);
    });
  });
});
