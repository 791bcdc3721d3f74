import { isDeepStrictEqual } from 'node:util';
import { expect } from 'chai';
import pg from 'pg';
import { advanceRollouts } from '../../../../src/features/agent-upgrades/rollout.work.ts';
import { openPool } from '../../../../src/platform/db/pool.ts';
import { buildPerson } from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import {
  createReleaseBench,
  query,
  type ReleaseBench,
  upload,
} from '../../../support/releases/release-support.ts';
import {
  type Attempt,
  buildFleet,
  type FleetDevice,
  inSystem,
  recordAttempts,
} from '../../../support/agent-upgrades/rollout-fleet.ts';

const MINUTE_MS = 60_000;

describe('the conductor of rollouts', function () {
  this.timeout(120_000);
  let bench: ReleaseBench;
  let devices: FleetDevice[];
  let rollout: { id: string; waveOpenedAt: string };
  beforeEach(async () => {
    bench = await createReleaseBench({ env: { AGENT_AUTO_PROMOTE: 'false' } });
    await upload(bench, { version: '1.1.0' });
    devices = await buildFleet(bench.app, { size: 40, organizations: 2 });
    rollout = (
      await call('POST', '', {
        version: '1.1.0',
        waves: [
          { percent: 50, soakMinutes: 60 },
          { percent: 50, soakMinutes: 60 },
        ],
      })
    ).body;
  });
  afterEach(() => bench.close());

  const call = (method: string, path: string, body?: object) =>
    bench.app.call(method, `/agent-rollouts${path}`, {
      token: bench.admin.token,
      ...(body === undefined ? {} : { body }),
    });
  const read = async () => (await call('GET', `/${rollout.id}`)).body;
  const after = (minutes: number) => new Date(Date.parse(rollout.waveOpenedAt) + minutes * MINUTE_MS);
  const round = (minutes: number, { isWhole = true, db = bench.app.server.database.jobPool } = {}) =>
    advanceRollouts({ db, log: quietLog }, { now: after(minutes), isWhole });
  const report = (given: readonly [FleetDevice, Attempt['state'], minutes: number][]) =>
    recordAttempts(
      bench.app,
      given.map(([device, state, minutes]) => ({ rolloutId: rollout.id, device, state, at: after(minutes) })),
    );
  const firstWave = async () => {
    const rows = await query<{ id: string }>(
      bench.app,
      `select d.id from devices d, agent_rollouts r
      where rollout_place(r.id, d.id) < 5000 or d.id = any(r.first_devices) order by d.id`,
    );
    return rows.map(({ id }) => devices.find((device) => device.id === id)!);
  };
  const failThree = async () => {
    const failing = (await firstWave()).filter(({ orgId }) => orgId === devices[0]!.orgId).slice(0, 3);
    await report(failing.map((device, at) => [device, 'failed', at + 1]));
    return failing;
  };

  it('opens the next wave after the time, when half of the wave that is connected has finished', async () => {
    const wave = await firstWave();
    const half = Math.ceil(wave.length / 2);
    await report(wave.slice(0, half - 1).map((device) => [device, 'completed', 5]));
    expect((await round(61)).steps).to.deep.equal([]);
    await report([[wave[half - 1]!, 'completed', 62]]);
    expect((await round(59)).steps, 'not before the time').to.deep.equal([]);
    expect((await round(63)).steps).to.deep.equal([{ rolloutId: rollout.id, step: 'open_next_wave' }]);
    const found = await read();
    expect([found.wave, found.waveOpenedAt]).to.deep.equal([1, after(63).toISOString()]);
    expect((await round(64)).steps, 'the second is observed as well').to.deep.equal([]);
  });

  it('waits for a wave that is away as a whole', async () => {
    await inSystem(bench.app, (tx) =>
      tx('device_presence').update({
        state: 'disconnected',
        reason: 'socket_closed',
        last_seen_at: new Date(Date.parse(rollout.waveOpenedAt) - MINUTE_MS),
      }),
    );
    expect((await round(6000)).steps).to.deep.equal([]);
    expect((await read()).waves[0].counts.waiting).to.have.property('agent_offline');
  });

  it('raises an alert in each organization whose devices failed, which names its own devices only', async () => {
    const wave = await firstWave();
    const orgIds = [...new Set(devices.map(({ orgId }) => orgId))];
    const of = (orgId: string, count: number) =>
      wave.filter((device) => device.orgId === orgId).slice(0, count);
    const [many, one] = [of(orgIds[0]!, 3), of(orgIds[1]!, 1)];
    await report([...many, ...one].map((device, at) => [device, 'rolled_back', at + 1]));
    expect((await round(10, { isWhole: false })).steps, 'by the small look').to.deep.equal([
      { rolloutId: rollout.id, step: 'halt' },
    ]);
    const found = await read();
    expect(found.state).to.equal('halted');
    expect(found.halts).to.have.length(1);
    expect(found.halts[0]).to.include({
      reason: 'failed_in_a_row',
      deviceCount: 4,
      haltedAt: after(10).toISOString(),
      endedAt: null,
    });
    expect(found.halts[0].message).to.match(
      /^4 devices failed one after another; 4 of 4 that have finished failed. They belong to 2 organizations; most of them, 3, to Organization \d+.$/,
    );
    const names = await query<{ id: string; hostname: string }>(
      bench.app,
      'select id, hostname from devices',
    );
    const nameOf = (device: FleetDevice) => names.find(({ id }) => id === device.id)!.hostname;
    for (const [orgId, own, others] of [
      [orgIds[0]!, many, one],
      [orgIds[1]!, one, many],
    ] as const) {
      const reader = await buildPerson(bench.app, { scope: 'organization', orgId });
      const { body } = await bench.app.call('GET', '/alerts', { token: reader.token });
      expect(body.data).to.have.length(1);
      const [alert] = body.data;
      expect(alert).to.include({
        kind: 'agent_rollout_halted',
        severity: 'high',
        status: 'active',
        deviceId: null,
      });
      const listed = /: ([^:]*)\. No further/.exec(alert.message)?.[1]?.split(', ');
      expect(listed).to.have.members(own.map(nameOf));
      expect(JSON.stringify(alert)).to.not.include(others[0]!.id);
    }
  });

  it('resolves the alerts when a person resumes, and does not halt again for the same failures', async () => {
    await failThree();
    await round(10);
    const { body: resumed } = await call('POST', `/${rollout.id}/resume`);
    expect([resumed.state, resumed.halts[0].endedAt !== null]).to.deep.equal(['running', true]);
    const alerts = await query(bench.app, 'select status, resolution, cause_lasts from alerts');
    expect(alerts).to.deep.equal([
      { status: 'resolved', resolution: 'The rollout was resumed.', cause_lasts: false },
    ]);
    // What is before the time of the resumption does not count; the clock of the test runs ahead of it.
    await inSystem(bench.app, (tx) =>
      tx('agent_rollouts').update({ judged_from: after(10), wave_opened_at: after(10) }),
    );
    expect((await round(20)).steps).to.deep.equal([]);
    const more = (await firstWave()).slice(-3);
    await report(more.map((device, at) => [device, 'failed', 21 + at]));
    expect((await round(30)).steps).to.deep.equal([{ rolloutId: rollout.id, step: 'halt' }]);
    expect(
      (await query(bench.app, `select count from alerts where status = 'active'`)).length,
    ).to.be.at.least(1);
    await call('POST', `/${rollout.id}/abort`);
    expect(await query(bench.app, `select id from alerts where status <> 'resolved'`)).to.deep.equal([]);
  });

  it('counts a device once, however often it fails', async () => {
    const [device, ...rest] = await firstWave();
    for (const minutes of [1, 2, 3, 4, 5, 6]) await report([[device!, 'failed', minutes]]);
    expect((await round(10)).steps, 'one device alone halts nothing').to.deep.equal([]);
    // It counts by its latest end.
    await report([
      [device!, 'completed', 11],
      ...rest
        .slice(0, 5)
        .map((one) => [one, 'completed', 12] as const)
        .map((one) => [...one] as [FleetDevice, 'completed', number]),
    ]);
    expect((await read()).waves[0].counts).to.include({ healthy: 6, failed: 0 });
  });

  it('does nothing twice if several servers decide at the same time', async () => {
    const pools = [1, 2, 3, 4].map((node) =>
      openPool(bench.app.database.appUrl, { max: 1, name: `node-${node}` }),
    );
    try {
      await failThree();
      const halted = await Promise.all(pools.map((db) => round(10, { db })));
      expect(halted.flatMap(({ steps }) => steps)).to.have.length(1);
      expect(await query(bench.app, 'select count from alerts')).to.deep.equal([{ count: 1 }]);
      expect(await query(bench.app, 'select 1 from agent_rollout_halts')).to.have.length(1);
    } finally {
      await Promise.all(pools.map((pool) => pool.destroy()));
    }
  });

  it('changes nothing if the server dies between the decision and the end of the transaction', async () => {
    await failThree();
    const doomed = openPool(bench.app.database.appUrl, { max: 1, name: 'doomed' });
    const blocker = openPool(bench.app.database.appUrl, { max: 1, name: 'blocker' });
    try {
      // A server that halts waits for this alert, when the rest is written and nothing is committed.
      const held = await blocker.transaction();
      await held.raw('set local role svc_system');
      await held.raw(
        `insert into alerts (id, org_id, kind, severity, title, message)
        values (gen_random_uuid(), ?, 'agent_rollout_halted', 'high', 'x', 'x')`,
        [devices[0]!.orgId],
      );
      const dying = round(10, { db: doomed });
      const [waiting] = await eventually(
        () =>
          asOwner<{ pid: number }>(
            bench.app.database.ownerUrl,
            `select pid from pg_stat_activity
            where datname = current_database() and application_name = 'doomed' and wait_event_type = 'Lock'`,
          ),
        (found) => found.length === 1,
      );
      await asOwner(bench.app.database.ownerUrl, `select pg_terminate_backend(${waiting!.pid})`);
      expect((await dying).steps).to.deep.equal([]);
      await held.rollback();
    } finally {
      await Promise.all([doomed.destroy(), blocker.destroy()]);
    }
    expect((await read()).state).to.equal('running');
    expect(await query(bench.app, 'select 1 from agent_rollout_halts')).to.deep.equal([]);
    expect((await round(11)).steps, 'another server decides').to.deep.equal([
      { rolloutId: rollout.id, step: 'halt' },
    ]);
    expect(await query(bench.app, 'select count from alerts')).to.deep.equal([{ count: 1 }]);
  });

  it('runs by itself as a job, and announces what changes to all servers', async () => {
    const heard: unknown[] = [];
    const client = new pg.Client({ connectionString: bench.app.database.appUrl });
    await client.connect();
    client.on('notification', ({ payload }) => heard.push(JSON.parse(payload ?? '')));
    await client.query('listen muster_upgrades');
    try {
      const failing = (await firstWave()).slice(0, 3);
      await recordAttempts(
        bench.app,
        failing.map((device) => ({ rolloutId: rollout.id, device, state: 'failed', at: new Date() })),
      );
      await inSystem(bench.app, (tx) =>
        tx.raw(`update job_schedules set next_at = now() where name = 'agent-rollouts.conduct'`),
      );
      await eventually(
        async () => (await read()).state,
        (state) => state === 'halted',
      );
      await eventually(
        () => heard.filter((notice) => isDeepStrictEqual(notice, { kind: 'rollout', id: rollout.id })),
        ({ length }) => length > 0,
      );
    } finally {
      await client.end();
    }
  });
});
