import { expect } from 'chai';
import { endLogs } from '../../../../src/features/logs/end-logs.job.ts';
import { RETENTION_RULES } from '../../../../src/features/retention-policies.ts';
import { RowPruner } from '../../../../src/platform/jobs/row-pruner.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import {
  buildDevice,
  buildOrganization,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('log retention', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());

  const pathOf = (orgId: string) => `/orgs/organizations/${orgId}/log-retention`;
  const read = (orgId = tenant.orgId, { token } = tenant.admin) => app.call('GET', pathOf(orgId), { token });
  const choose = (body: object, orgId = tenant.orgId, { token } = tenant.admin) =>
    app.call('PUT', pathOf(orgId), { token, body });

  const sql = (text: string, values: (string | number)[] = []) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(text, values));

  /** Rows of both kinds, so many days old. */
  async function fill({ deviceId, orgId }: EnrolledDevice, ages: number[], keptFor = ages): Promise<void> {
    for (const [i, age] of ages.entries()) {
      const values = [deviceId, orgId, age, keptFor[i] ?? age];
      await sql(
        `insert into diagnostic_logs (id, device_id, org_id, "timestamp", level, component, message, created_at)
        values (gen_random_uuid(), ?, ?, now() - make_interval(days => ?), 'info', 'c', 'm', now() - make_interval(days => ?))`,
        values,
      );
      await sql(
        `insert into event_logs (id, device_id, org_id, "timestamp", level, category, source, message, created_at)
        values (gen_random_uuid(), ?, ?, now() - make_interval(days => ?), 'info', 'system', 's', 'm', now() - make_interval(days => ?))`,
        values,
      );
    }
  }
  const left = async ({ deviceId }: EnrolledDevice) => {
    const { rows } = await sql(
      `select (select count(*)::int from diagnostic_logs where device_id = ?) as lines,
        (select count(*)::int from event_logs where device_id = ?) as events`,
      [deviceId, deviceId],
    );
    return rows[0] as { lines: number; events: number };
  };
  const remove = async () => {
    const { removed } = await endLogs({ db: app.server.database.jobPool, log: quietLog }, Date.now());
    return removed;
  };

  it('has defaults, can be chosen, and is told in the audit trail', async () => {
    const defaults = {
      diagnosticDays: 30,
      eventDays: 90,
      commandDays: 90,
      alertDays: 365,
      whenFull: 'refuse',
    };
    expect((await read()).body).to.deep.equal(defaults);
    const chosen = {
      diagnosticDays: 7,
      eventDays: 365,
      commandDays: 10,
      alertDays: 20,
      whenFull: 'remove_oldest',
    };
    const { status, body } = await choose(chosen);
    expect([status, body]).to.deep.equal([200, chosen]);
    expect((await read(tenant.orgId, tenant.technician)).body).to.deep.equal(chosen);
    await app.server.chainWriter.flush();
    const { rows } = await sql(
      `select details from audit_logs where action = 'organization.log_retention.update' and org_id = ?`,
      [tenant.orgId],
    );
    expect(rows).to.deep.equal([{ details: { before: defaults, after: chosen } }]);
  });

  it('keeps what a client does not send that knows of logs alone', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    await choose(
      { diagnosticDays: 7, eventDays: 8, commandDays: 9, alertDays: 10, whenFull: 'remove_oldest' },
      orgId,
    );
    expect((await choose({ diagnosticDays: 1, eventDays: 2 }, orgId)).body).to.deep.equal({
      diagnosticDays: 1,
      eventDays: 2,
      commandDays: 9,
      alertDays: 10,
      whenFull: 'remove_oldest',
    });
  });

  it('removes ended commands and resolved alerts by the organization’s own days', async () => {
    const device = await buildDevice(app, await buildOrganization(app, tenant.partnerId));
    for (const days of [5, 15]) {
      await sql(
        `insert into commands (id, org_id, device_id, type, payload, status, timeout_seconds, expires_at, finished_at)
        values (gen_random_uuid(), ?, ?, 'agent.ping', '{}', 'failed', 60, now(), now() - make_interval(days => ?))`,
        [device.orgId, device.deviceId, days],
      );
      await sql(
        `insert into alerts (id, org_id, device_id, kind, severity, status, title, message, resolved_at)
        values (gen_random_uuid(), ?, ?, 'k', 'low', 'resolved', 't', 'm', now() - make_interval(days => ?))`,
        [device.orgId, device.deviceId, days],
      );
    }
    await choose({ diagnosticDays: 1, eventDays: 1, commandDays: 10, alertDays: 3 }, device.orgId);
    await new RowPruner({ db: app.server.database.hubPool, rules: RETENTION_RULES, log: quietLog }).prune();
    const { rows } = await sql(
      `select (select count(*)::int from commands where org_id = ?) as commands,
        (select count(*)::int from alerts where org_id = ?) as alerts`,
      [device.orgId, device.orgId],
    );
    expect(rows).to.deep.equal([{ commands: 1, alerts: 0 }]);
  });

  it('is chosen within bounds, by people who may, of their own organizations', async () => {
    for (const wrong of [
      { diagnosticDays: 0 },
      { eventDays: 3651 },
      { eventDays: 1.5 },
      { eventDays: '7' },
      { commandDays: 0 },
      { alertDays: 3651 },
      { whenFull: 'rotate' },
    ]) {
      const { status } = await choose({ diagnosticDays: 7, eventDays: 7, ...wrong });
      expect(status, JSON.stringify(wrong)).to.equal(400);
    }
    const good = { diagnosticDays: 1, eventDays: 1 };
    expect((await choose(good, tenant.orgId, tenant.technician)).status).to.equal(403);
    const stranger = await buildTenant(app);
    expect((await choose(good, tenant.orgId, stranger.admin)).status).to.equal(404);
    expect((await read(tenant.orgId, stranger.admin)).status).to.equal(404);
    expect((await read(stranger.orgId, tenant.technician)).status).to.equal(404);
  });

  it('removes what is older, and of each organization by its own rule', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    const device = await buildDevice(app, orgId);
    const other = await buildDevice(app, await buildOrganization(app, tenant.partnerId));
    await choose({ diagnosticDays: 2, eventDays: 10 }, orgId);
    for (const one of [device, other]) await fill(one, [0, 1, 3, 20, 40, 100]);
    expect(await remove()).to.equal(4 + 3 + 2 + 1);
    expect(await left(device)).to.deep.equal({ lines: 2, events: 3 });
    expect(await left(other)).to.deep.equal({ lines: 4, events: 5 });
    expect(await remove()).to.equal(0);
  });

  it('keeps what came lately from a device whose clock is behind', async () => {
    const device = await buildDevice(app, await buildOrganization(app, tenant.partnerId));
    await fill(device, [10_000, 10_000], [0, 200]);
    await remove();
    expect(await left(device)).to.deep.equal({ lines: 1, events: 1 });
  });

  it('removes more than it removes at once', async () => {
    const device = await buildDevice(app, await buildOrganization(app, tenant.partnerId));
    await sql(
      `insert into diagnostic_logs (id, device_id, org_id, "timestamp", level, component, message, created_at)
      select gen_random_uuid(), ?, ?, now() - interval '99 days', 'info', 'c', 'm', now() - interval '99 days'
      from generate_series(1, 12000)`,
      [device.deviceId, device.orgId],
    );
    expect(await remove()).to.equal(12_000);
    expect((await left(device)).lines).to.equal(0);
  });

  it('goes on with the other organizations if the logs of one cannot be removed', async () => {
    const devices = [
      await buildDevice(app, await buildOrganization(app, tenant.partnerId)),
      await buildDevice(app, await buildOrganization(app, tenant.partnerId)),
      await buildDevice(app, await buildOrganization(app, tenant.partnerId)),
    ] as const;
    for (const one of devices) await fill(one, [99]);
    const damaged = devices[1];
    await asOwner(
      app.database.ownerUrl,
      `create function refuse() returns trigger language plpgsql as $$ begin raise 'damaged'; end $$;
      create trigger refuse before delete on agent_logs for each row when (old.org_id = '${damaged.orgId}')
        execute function refuse()`,
    );
    try {
      await remove();
      const lines = await Promise.all(devices.map(async (one) => (await left(one)).lines));
      expect(lines).to.deep.equal([0, 1, 0]);
    } finally {
      await asOwner(app.database.ownerUrl, 'drop function refuse cascade');
    }
    await remove();
    expect((await left(damaged)).lines).to.equal(0);
  });
});
