import { expect } from 'chai';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import { withSystem, withTenant } from '../../../../src/platform/db/transaction.ts';
import {
  buildDevice,
  buildOrganization,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

/** The release before there were partitions, which runs on this schema beside its successor and after it was rolled back. */
describe('the tables of logs of the former release', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let ends: Date;

  const sql = <Row extends object = Record<string, unknown>>(text: string, values: unknown[] = []) =>
    asOwner<Row & Record<string, unknown>>(app.database.ownerUrl, text, values);
  const asAgent = (text: string, values: (string | Date)[], orgId = tenant.orgId) => {
    const scope: TenantScope = {
      scope: 'organization',
      userId: null,
      partnerId: null,
      orgAccess: 'listed',
      orgIds: [orgId],
    };
    return withTenant(app.server.database.pool, scope, (tx) => tx.raw(text, values));
  };
  /** The statement of the former release, but for the time of arrival, which is its default there. */
  const storeEvent = async (eventId: string, at: Date, { orgId, deviceId } = device) => {
    const { rows } = await asAgent(
      `with device as (select id, org_id from devices where org_id = ? and id = ?),
      stored as (
        insert into device_event_logs (id, device_id, org_id, "timestamp", level, category, source, event_id, message, created_at)
        select gen_random_uuid(), device.id, device.org_id, now(), 'info', 'system', 's', ?, 'm', ?::timestamptz from device
        on conflict (device_id, source, event_id) do nothing returning 1)
      select count(*)::int as stored from stored`,
      [orgId, deviceId, eventId, at],
    );
    return (rows as { stored: number }[])[0]!.stored;
  };
  const storeLine = (at: Date, { orgId, deviceId } = device) =>
    asAgent(
      `insert into agent_logs (id, device_id, org_id, "timestamp", level, component, message, created_at)
      values (gen_random_uuid(), ?, ?, now(), 'info', 'c', 'm', ?::timestamptz)`,
      [deviceId, orgId, at],
      orgId,
    );
  const submit = (eventId: string) =>
    app.call('PUT', `/agents/${device.deviceId}/eventlogs`, {
      token: device.token,
      body: {
        events: [
          {
            timestamp: new Date().toISOString(),
            level: 'info',
            category: 'system',
            source: 's',
            eventId,
            message: 'm',
          },
        ],
      },
    });
  const count = async (table: string) =>
    (
      await sql<{ n: number }>(`select count(*)::int as n from ${table} where device_id = $1`, [
        device.deviceId,
      ])
    )[0]!.n;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    const [first] = await sql<{ ends: Date }>(
      `select ends from partitions_of('event_logs_recent') where part = 'device_event_logs' and begins is null`,
    );
    ends = first!.ends;
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
  });

  const inTime = () => new Date();
  const later = () => new Date(ends.getTime() + 1000);

  it('are the first partitions, for at least three days from the upgrade on', async () => {
    expect(ends.getTime() - Date.now()).to.be.within(2.9 * 86_400_000, 10 * 86_400_000);
    const parts = await sql(`select part from partitions_of('diagnostic_logs_recent') where begins is null`);
    expect(parts).to.deep.equal([{ part: 'agent_logs' }]);
  });

  it('take its rows, and show it those of its successor', async () => {
    expect(await storeEvent('1', inTime())).to.equal(1);
    expect(await storeEvent('1', inTime())).to.equal(0);
    await storeLine(inTime());
    expect((await submit('1')).body.count).to.equal(0);
    expect((await submit('2')).body.count).to.equal(1);
    expect(await storeEvent('2', inTime())).to.equal(0);
    expect([await count('event_logs'), await count('device_event_logs')]).to.deep.equal([2, 2]);
    expect([await count('diagnostic_logs'), await count('agent_logs')]).to.deep.equal([1, 1]);
  });

  it('hand its rows on when their time is over, each event once', async () => {
    await submit('1');
    for (const eventId of ['1', '2', '2']) expect(await storeEvent(eventId, later())).to.equal(0);
    await storeLine(later());
    expect([await count('event_logs'), await count('diagnostic_logs')]).to.deep.equal([2, 1]);
  });

  it('take no row for a device of another organization, at any time', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    for (const at of [inTime(), later()]) {
      for (const table of ['device_event_logs', 'agent_logs']) {
        const [names, values] =
          table === 'agent_logs'
            ? ['component', `'c'`]
            : ['category, source, event_id', `'system', 's', '1'`];
        const stored = asAgent(
          `insert into ${table} (id, device_id, org_id, "timestamp", level, message, created_at, ${names})
          values (gen_random_uuid(), ?, ?, now(), 'info', 'm', ?::timestamptz, ${values})`,
          [device.deviceId, orgId, at],
          orgId,
        );
        expect(await stored.catch((error: { code: string }) => error.code), table).to.equal('23503');
      }
    }
  });

  it('are never dropped, because the release may be started again', async () => {
    for (const table of ['event_logs_recent', 'diagnostic_logs_recent']) {
      const { rows } = await withSystem(app.server.database.jobPool, 'test', (tx) =>
        tx.raw('select drop_partition(?, ?::timestamptz) as dropped', [table, ends]),
      );
      expect(rows).to.deep.equal([{ dropped: false }]);
    }
  });
});
