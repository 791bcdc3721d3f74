import { expect } from 'chai';
import { endLogs } from '../../../../src/features/logs/end-logs.job.ts';
import { holdDevice, removeArrivedEvents, storeGroup } from '../../../../src/features/logs/log.queries.ts';
import { LogPartitions } from '../../../../src/features/logs/log-partitions.ts';
import type { AgentContext } from '../../../../src/platform/context.ts';
import { DAY_MS, HOUR_MS } from '../../../../src/clock.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import { withSystem, withTenant } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { DeviceEvent } from '../../../../src/protocol/index.ts';
import {
  buildDevice,
  buildOrganization,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { quietLog, recordingLog } from '../../../support/quiet-log.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

const event = (eventId: string | undefined, more: object = {}) =>
  DeviceEvent.parse({
    timestamp: '2026-03-01T08:00:00.000Z',
    level: 'error',
    category: 'system',
    source: 'disk',
    eventId,
    message: 'The disk is nearly full.',
    ...more,
  });
const scopeOf = (orgId: string): TenantScope => ({
  scope: 'organization',
  userId: null,
  partnerId: null,
  orgAccess: 'listed',
  orgIds: [orgId],
});

describe('partitions of logs', () => {
  const testClock = useTestClock();
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  const sql = <Row extends object = Record<string, unknown>>(text: string, values: unknown[] = []) =>
    asOwner<Row & Record<string, unknown>>(app.database.ownerUrl, text, values);
  const submit = (events: unknown[], { deviceId, token } = device) =>
    app.call('PUT', `/agents/${deviceId}/eventlogs`, { token, body: { events } });
  const total = async ({ deviceId } = device) =>
    (await app.call('GET', `/devices/${deviceId}/eventlogs`, { token: tenant.admin.token })).body.pagination
      .total;
  const end = () => endLogs({ db: app.server.database.jobPool, log: quietLog }, Date.now());
  const choose = (orgId: string, eventDays: number) =>
    sql(
      `insert into log_retention (org_id, diagnostic_days, event_days) values ($1, $2, $2)
      on conflict (org_id) do update set diagnostic_days = excluded.diagnostic_days, event_days = excluded.event_days`,
      [orgId, eventDays],
    );
  /** Events and lines that arrived so many days ago. */
  async function arrived({ deviceId, orgId }: EnrolledDevice, ages: number[]): Promise<void> {
    for (const table of ['event_logs_recent', 'diagnostic_logs_recent']) {
      await sql(`select add_partitions('${table}', now() - make_interval(days => $1), now())`, [
        Math.max(...ages),
      ]);
    }
    await sql(
      `insert into event_logs (id, device_id, org_id, "timestamp", level, category, source, event_id, message, created_at)
      select gen_random_uuid(), $1, $2, at, 'info', 'system', 's', age::text, 'm', at
      from unnest($3::int[]) age, lateral (select now() - make_interval(days => age) as at) t`,
      [deviceId, orgId, ages],
    );
    await sql(
      `insert into diagnostic_logs (id, device_id, org_id, "timestamp", level, component, message, created_at)
      select gen_random_uuid(), $1, $2, at, 'info', 'c', 'm', at
      from unnest($3::int[]) age, lateral (select now() - make_interval(days => age) as at) t`,
      [deviceId, orgId, ages],
    );
  }
  /** How many days ago the events and lines that are left arrived. */
  const left = async ({ deviceId }: EnrolledDevice) => {
    const ages = (table: string) =>
      sql<{ age: number }>(
        `select round(extract(epoch from now() - created_at) / 86400)::int as age from ${table} where device_id = $1 order by 1`,
        [deviceId],
      );
    return {
      events: (await ages('event_logs')).map(({ age }) => age),
      lines: (await ages('diagnostic_logs')).map(({ age }) => age),
    };
  };
  const partitions = async (table = 'event_logs_recent') =>
    (await sql<{ part: string }>('select part from partitions_of($1)', [table])).map(({ part }) => part);

  before(async () => {
    app = await createTestApp();
    // As on a server that has had partitions for longer than logs are kept.
    for (const [table, former] of [
      ['event_logs_recent', 'device_event_logs'],
      ['diagnostic_logs_recent', 'agent_logs'],
    ]) {
      await sql(`alter table ${table} detach partition ${former}`);
      await sql(`select add_partitions('${table}', now() - interval '120 days', now() + interval '3 days')`);
    }
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  afterEach(() => testClock.reset());
  beforeEach(async () => {
    await sql('delete from event_logs; delete from diagnostic_logs');
    device = await buildDevice(app, tenant.orgId);
  });

  describe('keep an event once', () => {
    for (const [where, change] of [
      ['of another week', `created_at = created_at - interval '20 days'`],
      ['for logs that are kept longer', 'kept = true'],
    ] as const) {
      it(`if the same is in the partition ${where}, also with another time and text`, async () => {
        expect((await submit([event('System:1'), event('System:2')])).body.count).to.equal(2);
        await sql(`update event_logs set ${change} where device_id = $1`, [device.deviceId]);
        const again = { timestamp: '2026-04-02T00:00:00.000Z', message: 'another' };
        const sent = [event('System:1', again), event('System:2', { source: 'other' }), event('System:3')];
        expect((await submit(sent)).body).to.deep.equal({ success: true, count: 2 });
        expect((await submit(sent)).body.count).to.equal(0);
        expect(await total()).to.equal(4);
      });
    }

    it('if it is twice in a batch; one without an id is always another', async () => {
      expect(
        (await submit([event('a'), event('a'), event(undefined), event(undefined)])).body.count,
      ).to.equal(3);
    });

    it('if two servers store it at once, on both sides of the end of a week', async () => {
      await sql(`alter table event_logs alter column created_at
        set default now() - coalesce(nullif(current_setting('test.before', true), ''), '0')::interval`);
      const store = (db: typeof app.server.database.pool, before: string, meanwhile: () => Promise<void>) =>
        withTenant(db, scopeOf(tenant.orgId), async (tx) => {
          await tx.raw(`select set_config('test.before', ?, true)`, [before]);
          const ctx = { tx, agent: device } as unknown as AgentContext;
          await holdDevice(ctx);
          const stored = await storeGroup(ctx, [event('System:7'), event('System:8')]);
          await meanwhile();
          return stored;
        });
      let second: Promise<number> | undefined;
      try {
        const first = await store(app.server.database.pool, '8 days', async () => {
          second = store(app.server.database.hubPool, '0', () => Promise.resolve());
          await waitsForLock('%event-logs-hold%', '%pg_advisory_xact_lock%');
        });
        expect([first, await second]).to.deep.equal([2, 0]);
      } finally {
        await second?.catch(() => undefined);
        await sql('alter table event_logs alter column created_at set default now()');
      }
      expect(await total()).to.equal(2);
    });

    /** Until a statement waits for a lock of another. */
    async function waitsForLock(...like: string[]): Promise<void> {
      for (let turn = 0; turn < 300; turn++) {
        const rows = await sql(
          `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
            and query like any($1::text[])`,
          [like],
        );
        if (rows.length > 0) return;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      expect.fail(`nothing waits: ${like.join(', ')}`);
    }

    it('and in one place, while its device is moved', async () => {
      const target = await buildOrganization(app, tenant.partnerId);
      const siteId = await buildSite(app, target);
      let moving: Promise<unknown> | undefined;
      await withTenant(app.server.database.pool, scopeOf(tenant.orgId), async (tx) => {
        const ctx = { tx, agent: device } as unknown as AgentContext;
        await holdDevice(ctx);
        moving = sql('update devices set org_id = $2, site_id = $3 where id = $1', [
          device.deviceId,
          target,
          siteId,
        ]);
        await waitsForLock('update devices set org_id%');
        expect(await storeGroup(ctx, [event('System:9')])).to.equal(1);
      });
      await moving;
      const rows = await sql<{ org_id: string }>('select org_id from event_logs where device_id = $1', [
        device.deviceId,
      ]);
      expect(rows).to.deep.equal([{ org_id: target }]);
      // A request that was admitted before the move finds no device in the organization of the caller.
      const late = withTenant(app.server.database.pool, scopeOf(tenant.orgId), (tx) =>
        holdDevice({ tx, agent: device } as unknown as AgentContext),
      );
      expect(await late.catch((error: { code: string }) => error.code)).to.equal('not_found');
    });
  });

  it('are not planned again for each batch, whatever its size', async () => {
    const plans = await withTenant(app.server.database.pool, scopeOf(tenant.orgId), async (tx) => {
      const ctx = { tx, agent: device } as unknown as AgentContext;
      const counted = async () => {
        const { rows } = await tx.raw<{ rows: { custom: number; kept: number }[] }>(
          `select custom_plans::int as custom, generic_plans::int as kept from pg_prepared_statements
          where name = 'event-logs-store'`,
        );
        return rows[0] ?? { custom: 0, kept: 0 };
      };
      await holdDevice(ctx);
      const before = await counted();
      for (const size of [1, 1, 1, 1, 1, 1, 1, 100]) {
        await storeGroup(
          ctx,
          Array.from({ length: size }, (_, n) => event(`${size} ${n}`)),
        );
      }
      const after = await counted();
      return { custom: after.custom - before.custom, kept: after.kept - before.kept };
    });
    expect(plans).to.deep.equal({ custom: 0, kept: 8 });
  });

  it('are chosen by the clock of the server, whatever a device says', async () => {
    const answer = await submit([
      { ...event('past'), timestamp: '1999-01-01T00:00:00Z', createdAt: '1999-01-01T00:00:00Z' },
      {
        ...event('ahead'),
        timestamp: new Date(Date.now() + HOUR_MS).toISOString(),
        created_at: '2030-01-01',
      },
      { ...event('kept'), kept: true },
    ]);
    expect(answer.body.count).to.equal(3);
    const rows = await sql<{ kept: boolean; now: boolean }>(
      `select distinct kept, created_at > now() - interval '1 minute' as now from event_logs where device_id = $1`,
      [device.deviceId],
    );
    expect(rows).to.deep.equal([{ kept: false, now: true }]);
  });

  it('are read by way of the table alone', async () => {
    for (const part of [
      ...(await partitions()),
      'event_logs_kept',
      'event_logs_recent',
      'diagnostic_logs_kept',
    ]) {
      const read = withTenant(app.server.database.pool, scopeOf(tenant.orgId), (tx) =>
        tx.raw(`select from ${part}`),
      );
      expect(await read.catch((error: { code: string }) => error.code), part).to.equal('42501');
    }
  });

  describe('are created', () => {
    it('when something arrives for which there is none, such as after weeks in which the server was down', async () => {
      for (const table of ['event_logs_recent', 'diagnostic_logs_recent']) {
        for (const part of (await partitions(table)).slice(-2)) await sql(`drop table ${part}`);
      }
      testClock.jump(2 * HOUR_MS);
      expect((await submit([event('first')])).status).to.equal(200);
      const line = { timestamp: new Date().toISOString(), level: 'info', component: 'c', message: 'm' };
      const answer = await app.call('POST', `/agents/${device.deviceId}/logs`, {
        token: device.token,
        body: { logs: [line] },
      });
      expect(answer.status).to.equal(201);
    });

    it('by one of many that ask at once, and are looked for again an hour later or earlier', async () => {
      const db = app.server.database.jobPool;
      const sent: string[] = [];
      const listen = ({ sql: text }: { sql?: string }) => {
        if (text?.includes('add_partitions') === true) sent.push(text);
      };
      db.on('query', listen);
      try {
        const kept = new LogPartitions({ db, log: quietLog });
        await Promise.all(Array.from({ length: 20 }, () => kept.ensure()));
        expect(sent).to.have.length(2);
        testClock.jump(59 * 60_000);
        await kept.ensure();
        expect(sent).to.have.length(2);
        testClock.jump(60_000);
        await kept.ensure();
        expect(sent).to.have.length(4);
        testClock.jump(-2 * HOUR_MS);
        await kept.ensure();
        expect(sent).to.have.length(6);
      } finally {
        db.off('query', listen);
      }
    });

    it('ahead of time, so that a failure refuses nothing', async () => {
      const { log, lines } = recordingLog();
      await sql(
        'alter function add_partitions(text, timestamptz, timestamptz) rename to add_partitions_away',
      );
      try {
        await new LogPartitions({ db: app.server.database.jobPool, log }).ensure();
      } finally {
        await sql(
          'alter function add_partitions_away(text, timestamptz, timestamptz) rename to add_partitions',
        );
      }
      expect(lines.map(({ event: name }) => name)).to.deep.equal(['logs.partitions_not_added']);
    });
  });

  describe('end', () => {
    it('by being dropped when the time of all their rows is over, with no row removed by itself', async () => {
      await arrived(device, [110, 100, 80, 50, 20, 0]);
      const before = await partitions();
      const { dropped, moved, removed, failed } = await end();
      expect({ moved, removed, failed }).to.deep.equal({ moved: 0, removed: 0, failed: 0 });
      expect(dropped).to.be.greaterThan(4);
      expect(await left(device)).to.deep.equal({ events: [0, 20, 50, 80], lines: [0, 20] });
      expect(await partitions()).to.deep.equal(before.slice(before.length - (await partitions()).length));
      expect((await end()).dropped).to.equal(0);
    });

    it('at most a week after the days for which rows are kept, and never before', async () => {
      await arrived(device, [98, 97, 89]);
      await end();
      expect((await left(device)).events).to.deep.equal([89]);
      const [oldest] = await sql<{ over: boolean }>(
        `select min(ends) > now() - interval '90 days' as over from partitions_of('event_logs_recent')`,
      );
      expect(oldest?.over).to.equal(true);
    });

    it('without the rows of an organization that keeps them longer, which end by themselves', async () => {
      const keeper = await buildDevice(app, await buildOrganization(app, tenant.partnerId));
      await choose(keeper.orgId, 115);
      await sql(
        `insert into alert_rules (id, partner_id, name, severity, target, condition, condition_kind, alert_kind)
        values (gen_random_uuid(), $1, 'Any event', 'low', '{"all":true}', '{"count":1,"withinMinutes":5}', 'event', 'any')`,
        [tenant.partnerId],
      );
      for (const one of [device, keeper]) await arrived(one, [118, 110, 100, 60, 0]);
      expect((await sql('delete from alert_rule_checks returning rule_id')).length).to.equal(2);
      const first = await end();
      expect(first.moved).to.be.greaterThan(4);
      // A backup that has begun before reads what is put aside in its former place, which stays until the next run.
      expect((await left(device)).events).to.include(100);
      expect((await end()).dropped).to.be.greaterThan(4);
      expect(await left(device)).to.deep.equal({ events: [0, 60], lines: [0] });
      expect(await left(keeper)).to.deep.equal({ events: [0, 60, 100, 110], lines: [0, 60, 100, 110] });
      expect(await sql('select from alert_rule_checks'), 'taken for new events').to.deep.equal([]);
      const sent = [event('100', { source: 's' }), event('110', { source: 's' })];
      expect((await submit(sent, keeper)).body.count).to.equal(0);
      expect(await total(keeper)).to.equal(4);
      expect(await end()).to.include({ dropped: 0, moved: 0, removed: 0 });
    });

    it('without such rows, which end when the organization has chosen fewer days', async () => {
      const keeper = await buildDevice(app, await buildOrganization(app, tenant.partnerId));
      await choose(keeper.orgId, 200);
      await arrived(keeper, [118, 100, 0]);
      for (let run = 0; run < 2; run += 1) await end();
      await choose(keeper.orgId, 110);
      expect(await end()).to.include({ removed: 2 });
      expect(await left(keeper)).to.deep.equal({ events: [0, 100], lines: [0, 100] });
    });

    it('earlier for an organization that keeps rows shorter, row by row', async () => {
      const short = await buildDevice(app, await buildOrganization(app, tenant.partnerId));
      await choose(short.orgId, 10);
      for (const one of [device, short]) await arrived(one, [25, 12, 9]);
      expect(await end()).to.include({ moved: 0, removed: 4 });
      expect(await left(short)).to.deep.equal({ events: [9], lines: [9] });
      expect(await left(device)).to.deep.equal({ events: [9, 12, 25], lines: [9, 12, 25] });
    });

    it('later if rows cannot be put aside, and only the partition that has them', async () => {
      const keeper = await buildDevice(app, await buildOrganization(app, tenant.partnerId));
      await choose(keeper.orgId, 3650);
      await arrived(device, [125, 110]);
      await arrived(keeper, [110]);
      await sql(`create function refuse() returns trigger language plpgsql as $$ begin raise 'damaged'; end $$;
        create trigger refuse before insert on event_logs_kept for each row when (new.org_id = '${keeper.orgId}')
          execute function refuse()`);
      const { log, lines } = recordingLog();
      try {
        const round = await endLogs({ db: app.server.database.jobPool, log }, Date.now());
        expect(round.failed).to.equal(1);
      } finally {
        await sql('drop function refuse cascade');
      }
      expect(lines.filter(({ event: name }) => name === 'logs.not_ended')[0]).to.include({
        orgId: keeper.orgId,
      });
      expect((await left(keeper)).events).to.deep.equal([110]);
      expect((await left(device)).events).to.deep.equal([110]);
      // The lines were put aside by the run before.
      expect(await end()).to.include({ failed: 0, moved: 1, dropped: 1 });
      expect((await left(device)).events).to.deep.equal([110]);
      expect(await end()).to.include({ failed: 0, dropped: 1 });
      expect((await left(keeper)).events).to.deep.equal([110]);
      expect((await left(device)).events).to.deep.equal([]);
    });

    it('in the next run if the table is in use, which waits for nothing meanwhile', async () => {
      await arrived(device, [110]);
      const round = await withTenant(app.server.database.pool, scopeOf(tenant.orgId), async (tx) => {
        await tx.raw('select count(*) from event_logs');
        return end();
      });
      expect(round.failed).to.be.greaterThan(0);
      expect((await left(device)).events).to.deep.equal([110]);
      expect((await end()).failed).to.equal(0);
      expect((await left(device)).events).to.deep.equal([]);
    });

    it('never while their time lasts, whoever asks', async () => {
      const [last] = await sql<{ ends: Date }>(
        `select max(ends) as ends from partitions_of('event_logs_recent')`,
      );
      const [answer] = await sql<{ dropped: boolean }>(
        `select drop_partition('event_logs_recent', $1) as dropped`,
        [last?.ends],
      );
      expect(answer).to.deep.equal({ dropped: false });
      for (const call of [
        `drop_partition('event_logs_recent', now())`,
        `add_partitions('event_logs_recent', now(), now())`,
      ]) {
        const asTenant = withTenant(app.server.database.pool, scopeOf(tenant.orgId), (tx) =>
          tx.raw(`select ${call}`),
        );
        expect(await asTenant.catch((error: { code: string }) => error.code), call).to.equal('42501');
      }
      const other = withSystem(app.server.database.jobPool, 'test', (tx) =>
        tx.raw(`select drop_partition('devices', now())`),
      );
      expect(await other.catch((error: Error) => error.message)).to.contain('no partitions by time');
    });
  });

  it('are passed over when a day of a device is removed for room', async () => {
    await arrived(device, [20, 12, 11, 0]);
    const day = new Date(Date.now() - 12 * DAY_MS).toISOString().slice(0, 10);
    const { removed } = await withSystem(app.server.database.jobPool, 'test', (tx) =>
      removeArrivedEvents(tx, { orgId: tenant.orgId, deviceId: device.deviceId, day }),
    );
    expect(removed).to.equal(2);
    expect((await left(device)).events).to.deep.equal([0, 11]);
  });

  it('lose the rows of a device that is deleted', async () => {
    const other = await buildDevice(app, tenant.orgId);
    for (const one of [device, other]) await arrived(one, [20, 0]);
    await sql('update event_logs set kept = true where device_id = $1', [device.deviceId]);
    await sql('delete from devices where id = $1', [device.deviceId]);
    expect(await left(device)).to.deep.equal({ events: [], lines: [] });
    expect(await left(other)).to.deep.equal({ events: [0, 20], lines: [0, 20] });
  });

  it('let the rows of a device go along to another organization', async () => {
    await arrived(device, [100, 20, 0]);
    await sql(
      `update event_logs set kept = true where device_id = $1 and created_at < now() - interval '50 days'`,
      [device.deviceId],
    );
    const orgId = await buildOrganization(app, tenant.partnerId);
    const target = { orgId, siteId: await buildSite(app, orgId) };
    const answer = await app.call('POST', `/devices/${device.deviceId}/move`, {
      token: tenant.admin.token,
      body: target,
    });
    expect(answer.status).to.equal(200);
    for (const table of ['event_logs', 'diagnostic_logs']) {
      const rows = await sql(`select distinct org_id from ${table} where device_id = $1`, [device.deviceId]);
      expect(rows, table).to.deep.equal([{ org_id: orgId }]);
    }
    expect(await total()).to.equal(3);
  });

  it('have no rows of ids that no device has', async () => {
    const held = withTenant(app.server.database.pool, scopeOf(tenant.orgId), (tx) =>
      holdDevice({ tx, agent: { orgId: tenant.orgId, deviceId: newId() } } as unknown as AgentContext),
    );
    expect(await held.catch((error: { code: string }) => error.code)).to.equal('not_found');
  });
});
