import { expect } from 'chai';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildSite, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { deviceGround, pathsOf, type Tenant } from './devices-support.ts';

describe('a device that is changed', () => {
  let app: TestApp;
  let tenant: Tenant;
  let device: EnrolledDevice;
  const { send, sql, read, auditOf, define } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  const patch = (body: unknown, person = tenant.admin) =>
    send('PATCH', `/devices/${device.deviceId}`, body, person);

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });

  it('has what was sent, keeps the rest, and an entry that names the fields', async () => {
    const { updatedAt: updatedBefore, ...before } = await read(device.deviceId);
    const site = await buildSite(app, tenant.orgId);
    await define(tenant.orgId, 'asset', 'string');
    const { status, body } = await patch({
      displayName: ' Till 4 ',
      tags: ['till', ' till ', 'front'],
      autoUpdate: false,
      siteId: site.toUpperCase(),
      customFields: { asset: 'A-1' },
    });
    expect(status).to.equal(200);
    const { updatedAt, ...after } = await read(device.deviceId);
    expect(after).to.deep.equal({
      ...before,
      displayName: 'Till 4',
      tags: ['till', 'front'],
      autoUpdate: false,
      siteId: site,
      customFields: { asset: 'A-1' },
    });
    expect(body).to.deep.equal({ ...after, updatedAt });
    expect(Date.parse(updatedAt)).to.be.at.least(Date.parse(updatedBefore));
    expect((await patch({ displayName: null, tags: [] })).body).to.deep.include({
      displayName: null,
      tags: [],
      autoUpdate: false,
    });
    const common = {
      action: 'device.update',
      org_id: tenant.orgId,
      actor_type: 'user',
      actor_id: tenant.admin.id,
      resource_name: before.hostname,
    };
    expect(await auditOf(device.deviceId)).to.deep.equal([
      {
        ...common,
        details: {
          changedFields: ['displayName', 'tags', 'autoUpdate', 'siteId', 'customFields.asset'],
          before: { displayName: null, tags: [], autoUpdate: true, siteId: before.siteId, customFields: {} },
          after: {
            displayName: 'Till 4',
            tags: ['till', 'front'],
            autoUpdate: false,
            siteId: site,
            customFields: { asset: 'A-1' },
          },
        },
      },
      {
        ...common,
        details: {
          changedFields: ['displayName', 'tags'],
          before: { displayName: 'Till 4', tags: ['till', 'front'] },
          after: { displayName: null, tags: [] },
        },
      },
    ]);
  });

  it('is refused what is wrong, all at once, and stays as it was', async () => {
    const before = await read(device.deviceId);
    const wrong: [unknown, ...(string | number)[]][] = [
      [{}, 400, 'body'],
      [{ hostname: 'other' }, 400, 'body'],
      [
        { displayName: '  ', tags: [''], autoUpdate: 'no' },
        400,
        'body.displayName',
        'body.tags.0',
        'body.tags.0',
        'body.autoUpdate',
      ],
      [{ displayName: 'x'.repeat(256) }, 400, 'body.displayName'],
      [{ tags: Array.from({ length: 51 }, (_, i) => `t${i}`) }, 400, 'body.tags'],
      [{ tags: ['x'.repeat(65)] }, 400, 'body.tags.0'],
      [{ customFields: { no: 1, such: null } }, 400, 'body.customFields.no', 'body.customFields.such'],
      [{ siteId: 'nowhere' }, 400, 'body.siteId'],
    ];
    for (const [body, ...paths] of wrong) {
      expect(pathsOf(await patch(body)), JSON.stringify(body).slice(0, 80)).to.deep.equal(paths);
    }
    const stranger = await buildTenant(app);
    expect((await patch({ siteId: stranger.siteId })).status).to.equal(403);
    const other = await sql<{ id: string }>(
      `insert into organizations (id, partner_id, name, slug) values (gen_random_uuid(), ?, 'o', 'o') returning id`,
      [tenant.partnerId],
    );
    const elsewhere = await buildSite(app, other[0]!.id);
    expect(pathsOf(await patch({ siteId: elsewhere }))).to.deep.equal([400, 'body.siteId']);
    expect((await patch({ tags: ['x'] }, stranger.admin)).status).to.equal(404);
    expect(await read(device.deviceId)).to.deep.equal(before);
    expect(await auditOf(device.deviceId)).to.deep.equal([]);
  });

  it('cannot be changed while its organization is suspended', async () => {
    await sql(`update organizations set status = 'suspended' where id = ?`, [tenant.orgId]);
    expect((await patch({ tags: ['x'] })).body.code).to.equal('TENANT_INACTIVE');
  });

  it('keeps every one of two changes that are made of different keys at once', async () => {
    for (const key of ['a', 'b', 'c', 'd']) await define(tenant.orgId, key, 'number');
    const answers = await Promise.all(
      ['a', 'b', 'c', 'd'].map((key, value) => patch({ customFields: { [key]: value } })),
    );
    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200, 200, 200]);
    expect((await read(device.deviceId)).customFields).to.deep.equal({ a: 0, b: 1, c: 2, d: 3 });
  });

  it('is shown changed to dashboards, by the part of the fleet that they subscribed to', async () => {
    const site = await buildSite(app, tenant.orgId);
    const clients = {
      all: await connectDashboard(app, tenant.admin.token),
      from: await connectDashboard(app, tenant.admin.token),
      to: await connectDashboard(app, tenant.technician.token),
    };
    const agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    await clients.all.subscribe();
    await clients.from.subscribe({ siteId: device.siteId });
    await clients.to.subscribe({ siteId: site });
    await patch({ displayName: 'Till', siteId: site });
    await eventually(
      () => [
        clients.all.deltas.some(({ changed }) => changed[0]?.displayName === 'Till'),
        clients.from.deltas.some(({ left }) => left.length > 0),
        clients.to.deltas.some(({ entered }) => entered.length > 0),
      ],
      (told) => !told.includes(false),
    );
    const changed = clients.all.deltas.flatMap((delta) => delta.changed);
    expect(changed.find(({ displayName }) => displayName === 'Till')).to.include({ siteId: site });
    expect(clients.from.deltas.at(-1)!.left).to.deep.equal([device.deviceId]);
    expect(clients.from.deltas.at(-1)!.counts.total).to.equal(0);
    expect(clients.to.deltas.at(-1)!.entered[0]).to.include({ id: device.deviceId, displayName: 'Till' });
    for (const client of Object.values(clients)) client.close();
    agent.close();
  });

  it('tells its agent whether to update itself, also one that comes back later', async () => {
    const first = await connectDevice(app, device.token);
    await first.heartbeat({ autoUpdate: true });
    await eventually(
      () => sql(`select from devices where id = ? and capabilities <> '{}'`, [device.deviceId]),
      (rows) => rows.length === 1,
    );
    first.close();
    await patch({ autoUpdate: false });
    const agent = await connectDevice(app, device.token);
    const frame = await agent.nextCommand();
    expect([frame.type, frame.payload]).to.deep.equal(['agent.set-auto-update', { enabled: false }]);
    await agent.succeed(frame, {});
    await agent.heartbeat({ autoUpdate: false });
    expect((await read(device.deviceId)).autoUpdate).to.equal(false);
    agent.close();
  });
});
