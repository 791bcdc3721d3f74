import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { buildDevice, buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

const ids = (body: { data: { id: string }[] }) => body.data.map(({ id }) => id);

describe('sites', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let system: Person;

  before(async () => {
    app = await sharedTestApp();
    system = await buildPerson(app, { scope: 'system' });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const send = (method: string, path: string, person: Person, body?: unknown) =>
    app.call(method, path, { token: person.token, ...(body === undefined ? {} : { body }) });
  const auditOf = async (resourceId: string) => {
    await app.server.chainWriter.flush();
    const { rows } = await withSystem(app.server.database.pool, 'test', (tx) =>
      tx.raw('select action from audit_logs where resource_id = ? order by id', [resourceId]),
    );
    return rows;
  };

  it('are listed by organization under either name of the parameter, and refused for a foreign organization', async () => {
    const stranger = await buildTenant(app);
    for (const parameter of ['orgId', 'organizationId']) {
      expect(
        ids((await send('GET', `/orgs/sites?${parameter}=${tenant.orgId}`, tenant.admin)).body),
      ).to.deep.equal([tenant.siteId]);
      const { status, body } = await send(
        'GET',
        `/orgs/sites?${parameter}=${stranger.orgId}`,
        tenant.technician,
      );
      expect([status, body.error]).to.deep.equal([403, 'Access to this organization denied']);
    }
  });

  it('answer 403 for a foreign site and 404 for one that does not exist', async () => {
    const stranger = await buildTenant(app);
    const foreign = await send('GET', `/orgs/sites/${stranger.siteId}`, tenant.technician);
    expect([foreign.status, foreign.body.error]).to.deep.equal([403, 'Access to this site denied']);
    expect((await send('GET', `/orgs/sites/${newId()}`, tenant.technician)).status).to.equal(404);
    expect((await send('GET', `/orgs/sites/${stranger.siteId}`, system)).body.timezone).to.equal('UTC');
  });

  it('are made, changed and removed in every scope that reaches them', async () => {
    const admin = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    for (const person of [admin, tenant.admin, system]) {
      const created = await send('POST', '/orgs/sites', person, {
        orgId: tenant.orgId,
        name: 'HQ',
        address: { street: 'Rua do Ouro', lines: [{ n: 1 }] },
      });
      expect(created.status).to.equal(201);
      expect(created.body).to.deep.include({
        orgId: tenant.orgId,
        timezone: 'UTC',
        contact: null,
        address: { street: 'Rua do Ouro', lines: [{ n: 1 }] },
      });
      const { id } = created.body;
      const changed = await send('PATCH', `/orgs/sites/${id}`, person, {
        timezone: 'Europe/Kyiv',
        address: null,
      });
      expect(changed.body).to.deep.include({ timezone: 'Europe/Kyiv', address: null, name: 'HQ' });
      expect((await send('PATCH', `/orgs/sites/${id}`, person, {})).body.error).to.equal(
        'no fields provided',
      );
      expect((await send('DELETE', `/orgs/sites/${id}`, person)).body).to.deep.equal({ success: true });
      expect((await send('GET', `/orgs/sites/${id}`, person)).status).to.equal(404);
      expect((await auditOf(id)).map(({ action }: { action: string }) => action)).to.deep.equal([
        'site.create',
        'site.update',
        'site.delete',
      ]);
    }
  });

  it('are refused in and from organizations out of reach', async () => {
    const stranger = await buildTenant(app);
    const made = await send('POST', '/orgs/sites', tenant.admin, { orgId: stranger.orgId, name: 'x' });
    expect([made.status, made.body.error]).to.deep.equal([403, 'Access to this organization denied']);
    for (const [method, body] of [
      ['PATCH', { name: 'x' }],
      ['DELETE', undefined],
    ] as const) {
      const answer = await send(method, `/orgs/sites/${stranger.siteId}`, tenant.admin, body);
      expect([answer.status, answer.body.error]).to.deep.equal([403, 'Access to this site denied']);
    }
    expect(
      (
        await send('PATCH', `/orgs/sites/${tenant.siteId}`, tenant.admin, {
          orgId: stranger.orgId,
          name: 'x',
        })
      ).body.details[0].path,
    ).to.equal('body.orgId');
  });

  it('stay while they have devices', async () => {
    await buildDevice(app, tenant.orgId);
    const { status, body } = await send('DELETE', `/orgs/sites/${tenant.siteId}`, tenant.admin);
    expect([status, body.code]).to.deep.equal([409, 'CONFLICT']);
  });

  it('are stored exactly as sent, or refused by name', async () => {
    const right = { name: '\u202eelbisrever \u200f', address: { ключ: ['🏠', '‮', { a: null }] } };
    const kept = await send('POST', '/orgs/sites', tenant.admin, { orgId: tenant.orgId, ...right });
    expect(kept.body).to.deep.include(right);
    const wrong: [object, string][] = [
      [{ name: 'x'.repeat(256) }, 'body.name'],
      [{ name: '   ' }, 'body.name'],
      [{ name: 'a\u0000b' }, 'body.name'],
      [{ name: 'a\ud800b' }, 'body.name'],
      [{ name: ['x'] }, 'body.name'],
      [{ name: 'x', timezone: '+01:00' }, 'body.timezone'],
      [{ name: 'x', timezone: 'Mars/Olympus' }, 'body.timezone'],
      [{ name: 'x', settings: [] }, 'body.settings'],
      [{ name: 'x', address: { a: { b: 'c\u0000' } } }, 'body.address.a.b'],
      [
        { name: 'x', address: JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`) },
        `body.address${'.a'.repeat(33)}`,
      ],
      [{ name: 'x', nmae: 'y' }, 'body'],
    ];
    for (const [fields, path] of wrong) {
      const { status, body } = await send('POST', '/orgs/sites', tenant.admin, {
        orgId: tenant.orgId,
        ...fields,
      });
      expect([status, body.details?.[0]?.path], path).to.deep.equal([400, path]);
    }
  });
});
