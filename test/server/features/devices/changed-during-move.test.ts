import { expect } from 'chai';
import pg from 'pg';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { type Answer, createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('a change of a device while it moves to another organization', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let target: { orgId: string; siteId: string };
  /** The transaction that moves the device. */
  let mover: pg.Client;
  before(async () => {
    app = await createTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    const orgId = await buildOrganization(app, tenant.partnerId);
    target = { orgId, siteId: await buildSite(app, orgId) };
    mover = new pg.Client(app.database.ownerUrl);
    await mover.connect();
  });
  afterEach(async () => mover.end());

  const send = (method: string, path: string, body?: unknown): Promise<Answer> =>
    app.call(method, path, { token: tenant.admin.token, ...(body === undefined ? {} : { body }) });
  const path = () => `/devices/${device.deviceId}`;

  /** Sends the change so that it waits for the device, which has moved when it gets it. */
  async function changeDuringMove(body: unknown): Promise<Answer> {
    await mover.query('begin');
    await mover.query('update devices set org_id = $2, site_id = $3 where id = $1', [
      device.deviceId,
      target.orgId,
      target.siteId,
    ]);
    const changing = send('PATCH', path(), body);
    await eventually(
      () =>
        mover.query<{ waiting: number }>(
          `select count(*)::int as waiting from pg_locks where not granted and locktype = 'transactionid'
            and transactionid = pg_current_xact_id_if_assigned()::xid`,
        ),
      ({ rows }) => rows[0]?.waiting === 1,
    );
    await mover.query('commit');
    return changing;
  }

  it('is refused when it has custom fields, which were checked by the definitions of the old one', async () => {
    await send('POST', '/custom-fields', {
      orgId: tenant.orgId,
      key: 'asset',
      name: 'Asset',
      type: 'string',
    });
    await send('POST', '/custom-fields', {
      orgId: target.orgId,
      key: 'asset',
      name: 'Asset',
      type: 'number',
    });
    const { status, body } = await changeDuringMove({ customFields: { asset: 'A-1' }, tags: ['till'] });
    expect([status, body.code]).to.deep.equal([409, 'CONFLICT']);
    const { body: after } = await send('GET', path());
    expect(after).to.deep.include({ orgId: target.orgId, customFields: {}, tags: [] });
  });

  it('is refused when it has a site, which is one of the old organization', async () => {
    const siteId = await buildSite(app, tenant.orgId);
    const { status } = await changeDuringMove({ siteId });
    expect(status).to.equal(400);
    expect((await send('GET', path())).body).to.include(target);
  });

  it('takes effect when it has only what every organization allows', async () => {
    const { status } = await changeDuringMove({ tags: ['till'] });
    expect(status).to.equal(200);
    expect((await send('GET', path())).body).to.deep.include({ ...target, tags: ['till'] });
  });
});
