import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildPartner,
  buildPerson,
  buildSite,
  buildTenant,
  type Person,
} from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { eventually } from '../../../support/eventually.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';

describe('managing tenants', () => {
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
  const inDatabase = (sql: string, values: readonly (string | number)[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));
  const auditOf = async (resourceId: string) => {
    await app.server.chainWriter.flush();
    return (
      await inDatabase(
        `select action, org_id, partner_id, details from audit_logs where resource_id = ? order by id`,
        [resourceId],
      )
    ).rows;
  };
  const slug = () => `s-${newId()}`;

  describe('partners', () => {
    it('are made active, with every default, changed, and deleted for good', async () => {
      const created = await send('POST', '/orgs/partners', system, {
        name: 'Acme',
        slug: slug(),
        maxOrganizations: 3,
        settings: { timezone: 'US/Eastern' },
      });
      expect(created.status).to.equal(201);
      expect(created.body).to.deep.include({
        type: 'msp',
        plan: 'free',
        status: 'active',
        maxOrganizations: 3,
        maxDevices: null,
        settings: { timezone: 'US/Eastern' },
        deletedAt: null,
      });
      const { id } = created.body;

      const changed = await send('PATCH', `/orgs/partners/${id}`, system, {
        status: 'suspended',
        maxOrganizations: null,
        settings: { dateFormat: 'YYYY-MM-DD' },
      });
      expect(changed.body).to.deep.include({
        status: 'suspended',
        maxOrganizations: null,
        settings: { timezone: 'US/Eastern', dateFormat: 'YYYY-MM-DD' },
      });

      expect((await send('DELETE', `/orgs/partners/${id}`, system)).body).to.deep.equal({ success: true });
      for (const [method, body] of [
        ['GET', undefined],
        ['PATCH', { name: 'x' }],
        ['DELETE', undefined],
      ] as const) {
        expect((await send(method, `/orgs/partners/${id}`, system, body)).status, method).to.equal(404);
      }
      expect(
        (await auditOf(id)).map(({ action, details }: { action: string; details: object }) => [
          action,
          details,
        ]),
      ).to.deep.equal([
        ['partner.create', {}],
        [
          'partner.update',
          {
            changedFields: ['maxOrganizations', 'settings.dateFormat', 'status'],
            before: { status: 'active', maxOrganizations: 3, settings: {} },
            after: { status: 'suspended', maxOrganizations: null, settings: { dateFormat: 'YYYY-MM-DD' } },
          },
        ],
        ['partner.delete', {}],
      ]);
    });

    it('have slugs of their own', async () => {
      const taken = slug();
      expect((await send('POST', '/orgs/partners', system, { name: 'A', slug: taken })).status).to.equal(201);
      const again = await send('POST', '/orgs/partners', system, { name: 'B', slug: taken });
      expect([again.status, again.body.details[0].path]).to.deep.equal([409, 'body.slug']);
      for (const bad of ['a/b', 'a b', '', 'ü', 'a'.repeat(101)]) {
        const { status, body } = await send('POST', '/orgs/partners', system, { name: 'B', slug: bad });
        expect([status, body.details[0].path], bad).to.deep.equal([400, 'body.slug']);
      }
    });

    it('refuse a patch without a field that they have', async () => {
      for (const [person, path] of [
        [system, `/orgs/partners/${tenant.partnerId}`],
        [tenant.admin, '/orgs/partners/me'],
      ] as const) {
        for (const patch of [{}, { nonsense: 1 }, { __proto__: null, toString: 1 }]) {
          const { status, body } = await send('PATCH', path, person, patch);
          expect([status, body.error]).to.deep.equal([400, 'no fields provided']);
        }
      }
    });
  });

  describe('the own partner', () => {
    it('is read and changed by its people, its settings key by key', async () => {
      expect((await send('GET', '/orgs/partners/me', tenant.admin)).body.id).to.equal(tenant.partnerId);
      await send('PATCH', '/orgs/partners/me', tenant.admin, {
        settings: { contact: { name: 'Ann', email: 'ann@example.com' }, timeFormat: '24h' },
      });
      const { body } = await send('PATCH', '/orgs/partners/me', tenant.admin, {
        name: 'New name',
        settings: { contact: { name: null, phone: '1' } },
      });
      expect(body.name).to.equal('New name');
      expect(body.settings).to.deep.equal({
        contact: { email: 'ann@example.com', phone: '1' },
        timeFormat: '24h',
      });
      const [, second] = await auditOf(tenant.partnerId);
      expect(second).to.deep.include({
        action: 'partner.settings.update',
        partner_id: tenant.partnerId,
        details: {
          changedFields: ['name', 'settings.contact.name', 'settings.contact.phone'],
          before: { name: second.details.before.name, settings: { contact: { name: 'Ann' } } },
          after: { name: 'New name', settings: { contact: { phone: '1' } } },
        },
      });
    });

    it('loses nothing when two change their settings at once', async () => {
      await Promise.all([
        send('PATCH', '/orgs/partners/me', tenant.admin, { settings: { dateFormat: 'DD/MM/YYYY' } }),
        send('PATCH', '/orgs/partners/me', tenant.admin, { settings: { timeFormat: '12h' } }),
        send('PATCH', '/orgs/partners/me', tenant.admin, { settings: { contact: { name: 'Ann' } } }),
      ]);
      const { body } = await send('GET', '/orgs/partners/me', tenant.admin);
      expect(body.settings).to.deep.equal({
        dateFormat: 'DD/MM/YYYY',
        timeFormat: '12h',
        contact: { name: 'Ann' },
      });
    });

    it('refuses settings that are not known or not right, naming each', async () => {
      const { status, body } = await send('PATCH', '/orgs/partners/me', tenant.admin, {
        settings: {
          timezone: '+01:00',
          dateFormat: 'D',
          language: 'de',
          businessHours: { custom: { monday: { start: '25:00', end: '18:00' } } },
          securtiy: {},
          security: { ipAllowlist: ['10.0.0.0/08'] },
        },
      });
      expect(status).to.equal(400);
      expect(body.details.map(({ path }: { path: string }) => path)).to.have.members([
        'body.settings.timezone',
        'body.settings.dateFormat',
        'body.settings.language',
        'body.settings.businessHours.custom.monday.start',
        'body.settings.security.ipAllowlist.0',
        'body.settings',
      ]);
      expect((await send('PATCH', '/orgs/partners/me', tenant.admin, { plan: 'unlimited' })).status).to.equal(
        400,
      );
    });

    it('takes the zones that people use', async () => {
      for (const timezone of ['UTC', 'US/Eastern', 'Europe/Kyiv']) {
        expect(
          (await send('PATCH', '/orgs/partners/me', tenant.admin, { settings: { timezone } })).status,
          timezone,
        ).to.equal(200);
      }
    });

    it('is not changed by people who may only look', async () => {
      const viewer = await buildPerson(app, {
        scope: 'partner',
        partnerId: tenant.partnerId,
        role: SYSTEM_ROLES.partnerViewer,
      });
      expect((await send('PATCH', '/orgs/partners/me', viewer, { name: 'x' })).status).to.equal(403);
    });
  });

  describe('organizations', () => {
    it('are made, changed and deleted by their partner, each noted with what it was', async () => {
      const created = await send('POST', '/orgs/organizations', tenant.admin, {
        name: 'Shop',
        slug: slug(),
        contractStart: '2026-01-01T00:00:00+02:00',
        billingContact: { email: 'x' },
      });
      expect(created.status).to.equal(201);
      expect(created.body).to.deep.include({
        partnerId: tenant.partnerId,
        type: 'customer',
        status: 'active',
        contractStart: '2025-12-31T22:00:00.000Z',
        billingContact: { email: 'x' },
      });
      const { id } = created.body;
      const changed = await send('PATCH', `/orgs/organizations/${id}`, tenant.admin, {
        contractStart: null,
        status: 'trial',
        partnerId: tenant.partnerId,
      });
      expect(changed.body).to.deep.include({ contractStart: null, status: 'trial' });
      const site = await buildSite(app, id);
      expect((await send('DELETE', `/orgs/organizations/${id}`, tenant.admin)).body).to.deep.equal({
        success: true,
      });
      expect((await send('GET', `/orgs/organizations/${id}`, tenant.admin)).status).to.equal(404);
      expect(
        (await inDatabase('select count(*)::int as n from sites where id = ?', [site])).rows[0].n,
      ).to.equal(1);
      const entries = await auditOf(id);
      expect(entries.map(({ action }: { action: string }) => action)).to.deep.equal([
        'organization.create',
        'organization.update',
        'organization.delete',
      ]);
      expect(entries[0]).to.deep.include({
        org_id: id,
        details: { partnerId: tenant.partnerId, status: 'active', type: 'customer' },
      });
    });

    it('belong to the partner of the person who makes them, and stay there', async () => {
      const other = await buildPartner(app);
      const foreign = await send('POST', '/orgs/organizations', tenant.admin, {
        name: 'x',
        slug: slug(),
        partnerId: other,
      });
      expect([foreign.status, foreign.body.error]).to.deep.equal([403, 'partnerId mismatch']);
      const missing = await send('POST', '/orgs/organizations', system, { name: 'x', slug: slug() });
      expect([missing.status, missing.body.error]).to.deep.equal([
        400,
        'partnerId is required for system scope',
      ]);
      expect(
        (await send('POST', '/orgs/organizations', system, { name: 'x', slug: slug(), partnerId: newId() }))
          .status,
      ).to.equal(404);
      expect(
        (await send('POST', '/orgs/organizations', system, { name: 'x', slug: slug(), partnerId: other }))
          .body.partnerId,
      ).to.equal(other);
      const moved = await send('PATCH', `/orgs/organizations/${tenant.orgId}`, tenant.admin, {
        partnerId: other,
      });
      expect([moved.status, moved.body.details]).to.deep.equal([
        400,
        [{ path: 'body.partnerId', message: 'cannot be changed' }],
      ]);
    });

    it('do not exceed the cap of their partner, however many are made at once', async () => {
      await inDatabase('update partners set max_organizations = 3 where id = ?', [tenant.partnerId]);
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_value, n) =>
          send('POST', '/orgs/organizations', tenant.admin, { name: `O${n}`, slug: slug() }),
        ),
      );
      expect(answers.filter(({ status }) => status === 201)).to.have.length(2);
      const refused = answers.find(({ status }) => status !== 201)!;
      expect([refused.status, refused.body.code]).to.deep.equal([403, 'LIMIT_REACHED']);
    });

    it('give their slug free when they are deleted, and share it with no other of the partner', async () => {
      const own = slug();
      const answers = await Promise.all(
        Array.from({ length: 4 }, () =>
          send('POST', '/orgs/organizations', tenant.admin, { name: 'x', slug: own }),
        ),
      );
      expect(answers.map(({ status }) => status)).to.have.members([201, 409, 409, 409]);
      const { id } = answers.find(({ status }) => status === 201)!.body;
      await send('DELETE', `/orgs/organizations/${id}`, tenant.admin);
      expect(
        (await send('POST', '/orgs/organizations', tenant.admin, { name: 'x', slug: own })).status,
      ).to.equal(201);
    });

    it('are listed in the order that the partner chooses', async () => {
      const [b, c] = [
        await buildOrganization(app, tenant.partnerId),
        await buildOrganization(app, tenant.partnerId),
      ];
      const deleted = await buildOrganization(app, tenant.partnerId, { deleted_at: new Date() });
      const { status, body } = await send('PATCH', '/orgs/organizations/order', tenant.admin, {
        organizationOrder: [c, newId(), deleted, c, tenant.orgId],
      });
      expect([status, body]).to.deep.equal([200, { organizationOrder: [c, tenant.orgId, b] }]);
      const d = await buildOrganization(app, tenant.partnerId, { name: 'AAA' });
      for (const path of ['/orgs/', '/orgs/organizations']) {
        const list = (await send('GET', path, tenant.admin)).body.data as { id: string }[];
        expect(
          list.map(({ id }) => id),
          path,
        ).to.deep.equal([c, tenant.orgId, b, d]);
      }
      expect(
        (await send('GET', '/orgs/partners/me', tenant.admin)).body.settings.organizationOrder,
      ).to.deep.equal([c, tenant.orgId, b]);
      expect(
        (await send('PATCH', '/orgs/organizations/order', tenant.admin, { organizationOrder: ['x'] })).status,
      ).to.equal(400);
    });

    it('are kept behind the others when a user who cannot access them chooses an order', async () => {
      const [b, hidden] = [
        await buildOrganization(app, tenant.partnerId),
        await buildOrganization(app, tenant.partnerId),
      ];
      await send('PATCH', '/orgs/organizations/order', tenant.admin, {
        organizationOrder: [hidden, b, tenant.orgId],
      });
      const some = await buildPerson(app, {
        scope: 'partner',
        partnerId: tenant.partnerId,
        orgAccess: 'selected',
        orgIds: [tenant.orgId, b],
      });
      const { body } = await send('PATCH', '/orgs/organizations/order', some, {
        organizationOrder: [tenant.orgId, b],
      });
      expect(body).to.deep.equal({ organizationOrder: [tenant.orgId, b] });
      expect(
        (await send('GET', '/orgs/partners/me', tenant.admin)).body.settings.organizationOrder,
      ).to.deep.equal([tenant.orgId, b, hidden]);
    });

    it('do not exist for administrators of the system once they are deleted, wherever they are named', async () => {
      const deleted = await buildOrganization(app, tenant.partnerId, { deleted_at: new Date() });
      const conditions = { operator: 'AND', conditions: [{ field: 'hostname', operator: 'isNotNull' }] };
      for (const orgId of [deleted, newId()]) {
        for (const [method, path, body] of [
          ['GET', `/orgs/sites?orgId=${orgId}`],
          ['POST', '/orgs/sites', { orgId, name: 'x' }],
          ['POST', '/filters', { orgId, name: 'x', conditions }],
          ['GET', `/devices?orgId=${orgId}`],
          ['GET', `/enrollment-keys?orgId=${orgId}`],
          ['GET', `/groups?orgId=${orgId}`],
        ] as const) {
          const answer = await send(method, path, system, body);
          expect([answer.status, answer.body.error], path).to.deep.equal([404, 'Organization not found']);
        }
      }
    });

    it('are ordered by the settings of the partner as well, if they exist and for those who can see them', async () => {
      const hidden = await buildOrganization(app, tenant.partnerId);
      const deleted = await buildOrganization(app, tenant.partnerId, { deleted_at: new Date() });
      const stranger = await buildTenant(app);
      const some = await buildPerson(app, {
        scope: 'partner',
        partnerId: tenant.partnerId,
        orgAccess: 'selected',
        orgIds: [tenant.orgId],
      });
      const order = async (organizationOrder: string[], person: Person) => {
        const { status, body } = await send('PATCH', '/orgs/partners/me', person, {
          settings: { organizationOrder },
        });
        expect(status, JSON.stringify(body)).to.equal(200);
        return body.settings.organizationOrder;
      };
      const shown = async (person: Person) =>
        (await send('GET', '/orgs/partners/me', person)).body.settings.organizationOrder;
      expect(
        await order([hidden, newId(), deleted, stranger.orgId, tenant.orgId, hidden], tenant.admin),
      ).to.deep.equal([hidden, tenant.orgId]);
      expect(await shown(some)).to.deep.equal([tenant.orgId]);
      // What they cannot see keeps its place behind what they have ordered.
      expect(await order([hidden, tenant.orgId], some)).to.deep.equal([tenant.orgId]);
      expect(await shown(tenant.admin)).to.deep.equal([tenant.orgId, hidden]);
    });

    it('let their devices report while they are suspended, and refuse actions on them', async () => {
      const device = await buildDevice(app, tenant.orgId);
      await send('PATCH', `/orgs/organizations/${tenant.orgId}`, tenant.admin, { status: 'suspended' });
      const agent = await connectDevice(app, device.token);
      await agent.heartbeat();
      await eventually(
        async () => (await send('GET', `/devices/${device.deviceId}`, tenant.admin)).body.status,
        (state) => state === 'online',
      );
      for (const [method, path, body] of [
        ['GET', `/devices/${device.deviceId}/eventlogs/live`, undefined],
        ['DELETE', `/devices/${device.deviceId}`, undefined],
        ['POST', '/enrollment-keys', { orgId: tenant.orgId, name: 'x' }],
      ] as const) {
        const answer = await send(method, path, tenant.admin, body);
        expect([answer.status, answer.body.code], path).to.deep.equal([403, 'TENANT_INACTIVE']);
      }
      agent.close();
    });
  });
});
