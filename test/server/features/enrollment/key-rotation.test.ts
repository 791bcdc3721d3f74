import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { buildTenant, MACHINE } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('another value for an enrollment key', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let created: { id: string; key: string };

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    const { body } = await app.call('POST', '/enrollment-keys', {
      token: tenant.admin.token,
      body: { orgId: tenant.orgId, name: 'Front desk', maxUsage: 3 },
    });
    created = body;
  });

  const rotate = (token = tenant.admin.token) =>
    app.call('POST', `/enrollment-keys/${created.id}/rotate`, { token });
  const enroll = async (enrollmentKey: string) =>
    (await app.call('POST', '/agents/enroll', { body: { ...MACHINE, enrollmentKey } })).status;
  const inDatabase = (sql: string, values: readonly string[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));

  it('is shown once, ends the old one at once, and keeps the record with its limit and count', async () => {
    expect(await enroll(created.key)).to.equal(201);
    const { status, body } = await rotate();
    expect(status).to.equal(201);
    expect(body).to.include({ id: created.id, name: 'Front desk', maxUsage: 3, usageCount: 1 });
    expect(body.key)
      .to.match(/^menr_[0-9A-Za-z]{46}$/)
      .and.not.equal(created.key);
    expect(body.keyPrefix).to.equal(body.key.slice(0, 10));
    expect(await enroll(created.key)).to.equal(401);
    expect([await enroll(body.key), await enroll(body.key), await enroll(body.key)]).to.deep.equal([
      201, 201, 401,
    ]);
    const read = await app.call('GET', `/enrollment-keys/${created.id}`, { token: tenant.admin.token });
    expect(read.body).to.include({ usageCount: 3, keyPrefix: body.keyPrefix });
    expect(read.body).not.to.have.any.keys('key', 'keyHash');
  });

  it('is refused to a revoked key, to strangers and if the organization is suspended', async () => {
    const stranger = await buildTenant(app);
    expect((await rotate(stranger.admin.token)).status).to.equal(404);
    await inDatabase(`update organizations set status = 'suspended' where id = ?`, [tenant.orgId]);
    expect((await rotate()).body.code).to.equal('TENANT_INACTIVE');
    await inDatabase(`update organizations set status = 'active' where id = ?`, [tenant.orgId]);
    await app.call('DELETE', `/enrollment-keys/${created.id}`, { token: tenant.admin.token });
    const { status, body } = await rotate();
    expect([status, body.code]).to.deep.equal([409, 'CONFLICT']);
    expect(body).not.to.have.property('key');
  });

  it('leaves one value that works, however many are asked for at once, with machines coming in meanwhile', async () => {
    await inDatabase('update enrollment_keys set max_usage = null where id = ?', [created.id]);
    const [rotated, enrolled] = await Promise.all([
      Promise.all(Array.from({ length: 8 }, () => rotate())),
      Promise.all(Array.from({ length: 5 }, () => enroll(created.key))),
    ]);
    const statuses: number[] = [];
    for (const { body } of rotated) statuses.push(await enroll(body.key));
    expect(statuses.filter((status) => status === 201)).to.have.length(1);
    expect(new Set([...statuses, ...enrolled, 201, 401])).to.deep.equal(new Set([201, 401]));
    const { rows } = await inDatabase('select usage_count from enrollment_keys where id = ?', [created.id]);
    expect(rows[0].usage_count).to.equal(1 + enrolled.filter((status) => status === 201).length);
  });

  it('never brings a key back that is revoked in the same moment', async () => {
    for (let round = 0; round < 8; round++) {
      const { body } = await app.call('POST', '/enrollment-keys', {
        token: tenant.admin.token,
        body: { orgId: tenant.orgId, name: `Round ${round}` },
      });
      created = body;
      const [rotated] = await Promise.all([
        rotate(),
        app.call('DELETE', `/enrollment-keys/${created.id}`, { token: tenant.admin.token }),
      ]);
      expect(rotated.status).to.be.oneOf([201, 409]);
      if (rotated.status === 201) expect(await enroll(rotated.body.key)).to.equal(401);
    }
  });

  it('stands in the audit trail', async () => {
    await rotate();
    await app.server.chainWriter.flush();
    const { rows } = await inDatabase(
      `select org_id, actor_id, resource_id, resource_name from audit_logs where action = 'enrollment_key.rotate' and resource_id = ?`,
      [created.id],
    );
    expect(rows).to.deep.equal([
      {
        org_id: tenant.orgId,
        actor_id: tenant.admin.id,
        resource_id: created.id,
        resource_name: 'Front desk',
      },
    ]);
  });
});
