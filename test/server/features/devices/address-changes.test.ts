import { expect } from 'chai';
import { createAuditTrail } from '../../../../src/features/audit/index.ts';
import { createDeviceStore } from '../../../../src/features/devices/index.ts';
import { PresenceWriter } from '../../../../src/hub/presence/presence-writer.ts';
import { openPool, type Db } from '../../../../src/platform/db/pool.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('devices that come from another address', () => {
  let app: TestApp;
  let db: Db;
  before(async () => {
    app = await sharedTestApp();
    db = openPool(app.database.appUrl, { max: 1, name: 'counted' });
  });
  after(async () => {
    await db.destroy();
    await app.close();
  });

  const statementsOf = async (work: () => Promise<void>) => (await sentStatements(['counted'], work)).length;

  it('are noted by as many statements for a fleet as for one', async () => {
    const { orgId, siteId } = await buildTenant(app);
    const fleet = Array.from({ length: 400 }, newId).toSorted();
    await asOwner(
      app.database.ownerUrl,
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture,
        agent_version, enrolled_at)
      select id, $2, $3, 'host "' || n || E'" \\\\ \\t€', 'linux', '1', 'x64', '1', now()
      from unnest($1::uuid[]) with ordinality as u (id, n)`,
      [fleet, orgId, siteId],
    );
    const store = createDeviceStore({
      db,
      nodeId: 'here',
      audit: createAuditTrail({ wake() {} }),
      log: quietLog,
    });
    const come = (devices: string[], lastIp: string, epoch: number) =>
      store.recordPresence(
        devices.map((deviceId) => ({
          deviceId,
          epoch,
          presence: { state: 'connected', since: new Date().toISOString(), reason: 'connected' },
          lastSeenAt: new Date().toISOString(),
          lastIp,
          metrics: null,
          uptimeSeconds: null,
        })),
      );
    await come(fleet, '10.0.0.1', 1);
    const forNone = await statementsOf(() => come(fleet, '10.0.0.1', 2));
    const forOne = await statementsOf(() => come(fleet.slice(0, 1), '10.0.0.2', 3));
    const forAll = await statementsOf(() => come(fleet.slice(1), '10.0.0.2', 3));
    // Begin, write, commit; else what was written is undone, and written again with the entries.
    expect([forNone, forOne, forAll]).to.deep.equal([3, 7, 7]);

    await app.server.chainWriter.flush();
    const rows = await asOwner(
      app.database.ownerUrl,
      `select l.actor_id, l.actor_type, l.details, l.ip_address, l.resource_name = d.hostname as named, l.result
      from audit_logs l join devices d on d.id = l.resource_id
      where l.org_id = $1 and l.action = 'agent.source.ip.changed' order by l.actor_id`,
      [orgId],
    );
    expect(rows).to.deep.equal(
      fleet.map((id) => ({
        actor_id: id,
        actor_type: 'agent',
        details: { before: '10.0.0.1', after: '10.0.0.2' },
        ip_address: '10.0.0.2',
        named: true,
        result: 'success',
      })),
    );
  });

  it('are noted from address to address, even if they came from several before anything was written', async () => {
    const tenant = await buildTenant(app);
    const device = await buildDevice(app, tenant.orgId);
    const store = createDeviceStore({
      db,
      nodeId: 'here',
      audit: createAuditTrail({ wake() {} }),
      log: quietLog,
    });
    const writer = new PresenceWriter(store, quietLog);
    const connect = (lastIp: string, epoch: number) =>
      writer.presence({
        deviceId: device.deviceId,
        epoch,
        presence: { state: 'connected', since: new Date().toISOString(), reason: 'connected' },
        lastSeenAt: new Date().toISOString(),
        lastIp,
        metrics: null,
        uptimeSeconds: null,
      });
    const report = (lastIp: string) =>
      writer.report({
        deviceId: device.deviceId,
        until: new Date().toISOString(),
        lastSeenAt: new Date().toISOString(),
        lastIp,
        metrics: null,
        uptimeSeconds: null,
      });
    connect('10.0.0.1', 1);
    connect('10.0.0.2', 2);
    connect('10.0.0.3', 3);
    await writer.close();
    // Back where it was: what was stored and what is written are the same.
    report('10.0.0.4');
    report('10.0.0.5');
    connect('10.0.0.3', 4);
    await writer.close();
    await app.server.chainWriter.flush();
    const rows = await asOwner(
      app.database.ownerUrl,
      `select details from audit_logs where org_id = $1 and action = 'agent.source.ip.changed' order by seq`,
      [tenant.orgId],
    );
    const ways = ['1 2', '2 3', '3 4', '4 5', '5 3'].map((way) => way.split(' '));
    expect(rows).to.deep.equal(
      ways.map(([from, to]) => ({ details: { before: `10.0.0.${from}`, after: `10.0.0.${to}` } })),
    );
  });
});
