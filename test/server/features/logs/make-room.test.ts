import { expect } from 'chai';
import pg from 'pg';
import { createAuditTrail } from '../../../../src/features/audit/index.ts';
import { makeRoom } from '../../../../src/features/logs/make-room.job.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const ALL_ENTRIES = 200_000_000;
const DAY = `(now() at time zone 'utc')::date`;

describe('room for new logs', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let log: ReturnType<typeof recordingLog>;

  before(async () => {
    app = await sharedTestApp();
  });
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    log = recordingLog();
  });

  const sql = <Row extends object = object>(text: string, values: unknown[] = []) =>
    asOwner<Row>(app.database.ownerUrl, text, values);
  const room = () =>
    makeRoom({
      db: app.server.database.jobPool,
      audit: createAuditTrail(app.server.chainWriter),
      log: log.log,
    });
  const choose = async (whenFull: string, { orgId, admin } = tenant) => {
    const { status, body } = await app.call('PUT', `/orgs/organizations/${orgId}/log-retention`, {
      token: admin.token,
      body: { diagnosticDays: 90, eventDays: 90, whenFull },
    });
    expect(status, JSON.stringify(body)).to.equal(200);
  };

  /** A line and an event that arrived so many days ago, counted as many more than they are. */
  async function arrived(days: number, counted: number, { deviceId, orgId } = device, each = 1) {
    await sql(
      `insert into stored_log_days (device_id, org_id, day, entries, bytes) values ($1, $2, ${DAY} - $3::int, $4, 1048576)`,
      [deviceId, orgId, days, counted],
    );
    const at = `(${DAY} - $3::int + time '12:00') at time zone 'utc'`;
    await sql(
      `insert into diagnostic_logs (id, device_id, org_id, "timestamp", level, component, message, created_at)
      select gen_random_uuid(), $1, $2, ${at}, 'info', 'c', 'm', ${at} from generate_series(1, $4)`,
      [deviceId, orgId, days, each],
    );
    await sql(
      `insert into event_logs (id, device_id, org_id, "timestamp", level, category, source, message, created_at)
      select gen_random_uuid(), $1, $2, ${at}, 'info', 'system', 's', 'm', ${at} from generate_series(1, $4)`,
      [deviceId, orgId, days, each],
    );
  }
  /** By how many days ago it arrived: how many lines and events there are, and how many are counted. */
  async function left({ deviceId } = device): Promise<Record<string, [number, number, number]>> {
    const rows = await sql<{ age: number; lines: number; events: number; counted: number }>(
      `select age, sum(lines)::int as lines, sum(events)::int as events, sum(counted)::int as counted from (
        select ${DAY} - (created_at at time zone 'utc')::date as age, 1 as lines, 0 as events, 0::bigint as counted
          from diagnostic_logs where device_id = $1
        union all select ${DAY} - (created_at at time zone 'utc')::date, 0, 1, 0 from event_logs where device_id = $1
        union all select ${DAY} - day, 0, 0, entries from stored_log_days where device_id = $1) s
      group by age order by age`,
      [deviceId],
    );
    return Object.fromEntries(rows.map(({ age, lines, events, counted }) => [age, [lines, events, counted]]));
  }
  const alerts = (kind: string) =>
    sql<{ message: string; device_id: string | null }>(
      'select message, device_id from alerts where org_id = $1 and kind = $2',
      [tenant.orgId, kind],
    );
  const dayText = async (ago: number) =>
    (await sql<{ day: string }>(`select (${DAY} - $1::int)::text as day`, [ago]))[0]!.day;

  it('is made by removing whole days, the oldest first, until a tenth is free, in the organization alone', async () => {
    const stranger = await buildTenant(app);
    const foreign = await buildDevice(app, stranger.orgId);
    await choose('remove_oldest');
    for (const one of [device, foreign]) {
      for (const [days, counted] of [
        [9, 10_000_000],
        [8, 10_000_000],
        [7, 10_000_000],
        [0, 170_000_000],
      ] as const) {
        await arrived(days, counted, one);
      }
    }
    const round = await room();
    expect(round).to.deep.equal({ decided: 1, removed: 4, failed: 0 });
    expect(await left()).to.deep.equal({ 0: [1, 1, 170_000_000], 7: [1, 1, 10_000_000] });
    expect(await left(foreign)).to.have.all.keys('0', '7', '8', '9');
    const [from, through] = [await dayText(9), await dayText(8)];
    const [alert] = await alerts('oldest_logs_removed');
    expect(alert?.device_id).to.equal(null);
    expect(alert?.message).to.include(
      `Logs that arrived from ${from} to ${through} (UTC) are removed, 20000000 entries of 2 MiB`,
    );
    await app.server.chainWriter.flush();
    const audited = await sql<{ details: object; org_id: string }>(
      `select details, org_id from audit_logs where action = 'organization.logs.remove_oldest' and org_id = any($1)`,
      [[tenant.orgId, stranger.orgId]],
    );
    expect(audited).to.deep.equal([
      { details: { from, through, entries: 20_000_000, bytes: 2 * 1024 ** 2 }, org_id: tenant.orgId },
    ]);
    expect(await room()).to.deep.equal({ decided: 0, removed: 0, failed: 0 });
  });

  it('is made for new logs, which are refused for ten minutes if it is not made yet', async () => {
    const send = ({ deviceId, token }: EnrolledDevice) =>
      app.call('POST', `/agents/${deviceId}/logs`, {
        token,
        body: {
          logs: [{ timestamp: new Date().toISOString(), level: 'info', component: 'c', message: 'm' }],
        },
      });
    const second = await buildTenant(app);
    const [full, makes] = [await buildDevice(app, tenant.orgId), await buildDevice(app, second.orgId)];
    for (const [one, owner] of [
      [full, tenant],
      [makes, second],
    ] as const) {
      await choose('remove_oldest', owner);
      const other = await buildDevice(app, owner.orgId);
      await arrived(3, ALL_ENTRIES / 2, other);
      await arrived(2, ALL_ENTRIES / 2, other);
      if (one === makes) await room();
      const answer = await send(one);
      expect(answer.status).to.equal(one === makes ? 201 : 429);
      if (one === makes) continue;
      expect(Number(answer.headers.get('retry-after'))).to.equal(600);
      expect(JSON.stringify(answer.body)).to.include('oldest logs are being removed');
    }
  });

  it('is not made if the organization refuses new logs, nor for a budget of a day or of a device', async () => {
    await arrived(5, ALL_ENTRIES);
    expect(await room()).to.include({ decided: 0, removed: 0 });
    await choose('remove_oldest');
    await sql('update stored_log_days set entries = 5000000 where org_id = $1', [tenant.orgId]);
    await arrived(0, 5_000_000);
    expect(await room()).to.include({ decided: 0, removed: 0 });
    expect(Object.keys(await left())).to.deep.equal(['0', '5']);
  });

  it('is made in batches, and ends at once if the organization takes its choice back', async () => {
    await choose('remove_oldest');
    await arrived(5, ALL_ENTRIES, device, 6000);
    await arrived(4, 10);
    const batches: string[] = [];
    const jobPool = app.server.database.jobPool;
    const listen = (query: { sql?: string }) => {
      if (query.sql?.startsWith('delete from diagnostic_logs') === true) batches.push(query.sql);
    };
    jobPool.on('query', listen);
    try {
      expect(await room()).to.include({ removed: 12_000 });
    } finally {
      jobPool.off('query', listen);
    }
    expect(batches).to.have.length(3);
    expect(await left()).to.deep.equal({ 4: [1, 1, 10] });

    await arrived(6, ALL_ENTRIES);
    await sql(`update log_retention set removing_through = ${DAY} - 6 where org_id = $1`, [tenant.orgId]);
    await choose('refuse');
    await choose('remove_oldest');
    await sql('update stored_log_days set entries = 1 where org_id = $1', [tenant.orgId]);
    expect(await room()).to.include({ removed: 0 });
    expect(await left()).to.have.all.keys('4', '6');
  });

  it('is made to its end by a later run, without a second entry, if a run was stopped', async () => {
    await choose('remove_oldest');
    await arrived(5, ALL_ENTRIES, device, 3000);
    const stop = new AbortController();
    const jobPool = app.server.database.jobPool;
    const listen = (query: { sql?: string }) => {
      if (query.sql?.startsWith('delete from event_logs') === true) stop.abort();
    };
    jobPool.on('query', listen);
    const parts = { db: jobPool, audit: createAuditTrail(app.server.chainWriter), log: log.log };
    try {
      await makeRoom(parts, stop.signal).then(
        () => expect.fail('the run was not stopped'),
        () => undefined,
      );
    } finally {
      jobPool.off('query', listen);
    }
    const [lines, events, counted] = (await left())[5]!;
    expect([lines, events, counted]).to.deep.equal([500, 500, ALL_ENTRIES - 5000]);
    expect(await room()).to.deep.equal({ decided: 0, removed: 1000, failed: 0 });
    expect(await left()).to.deep.equal({});
  });

  it('counts logs right that arrive on a day while it is being removed', async () => {
    await choose('remove_oldest');
    await arrived(1, ALL_ENTRIES);
    await sql(`update stored_log_days set entries = $2 where org_id = $1`, [tenant.orgId, ALL_ENTRIES]);
    const [blocker, late] = [
      new pg.Client({ connectionString: app.database.ownerUrl }),
      new pg.Client({ connectionString: app.database.ownerUrl }),
    ];
    await Promise.all([blocker.connect(), late.connect()]);
    try {
      // The removal has locked the day, and waits for the lock of the second table.
      await blocker.query(`begin; select pg_advisory_xact_lock(hashtextextended('prune event_logs', 0))`);
      const round = room();
      const waiting = async (what: string) => {
        for (let turn = 0; turn < 400; turn++) {
          const rows = await sql(
            `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like $1`,
            [what],
          );
          if (rows.length > 0) return;
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        expect.fail(`nothing waits for ${what}`);
      };
      await waiting('%pg_advisory_xact_lock%');
      // A request that began before midnight stores an event and counts it.
      const yesterday = `(${DAY} - 1 + time '23:59') at time zone 'utc'`;
      await late.query('begin');
      await late.query(
        `insert into event_logs (id, device_id, org_id, "timestamp", level, category, source, message, created_at)
        values (gen_random_uuid(), $1, $2, ${yesterday}, 'info', 'system', 's', 'late', ${yesterday})`,
        [device.deviceId, tenant.orgId],
      );
      const counting = late.query(
        `insert into stored_log_days (device_id, org_id, day, entries, bytes) values ($1, $2, ${DAY} - 1, 1, 4)
        on conflict (device_id, day) do update set entries = stored_log_days.entries + 1`,
        [device.deviceId, tenant.orgId],
      );
      await waiting('insert into stored_log_days%');
      await blocker.query('commit');
      await counting;
      await late.query('commit');
      await round;
    } finally {
      await Promise.all([blocker.end(), late.end()]);
    }
    // The late event is removed by this run, or stays until room is made again: it is counted as it is in both cases.
    expect(JSON.stringify(await left())).to.be.oneOf(['{}', '{"1":[0,1,1]}']);
  });
});
