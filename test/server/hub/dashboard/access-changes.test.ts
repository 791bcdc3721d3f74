import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  PASSWORD,
  type Person,
  signIn,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

/** Far beyond the time of a test: what ends earlier was not ended by the periodic look at all rights. */
const NEVER_MS = 600_000;
/** Time enough to connect on a busy machine. */
const EXPIRES_MS = 10_000;

describe('rights that change on one server while clients are connected to another', () => {
  let database: TestDatabase;
  let here: TestApp;
  let there: TestApp;
  let system: Person;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let open: { close(): void }[];

  const start = () => createTestApp({ database, dashboardRecheckMs: NEVER_MS, graceMs: 50 });
  before(async () => {
    database = await createTestDatabase();
    // Without Redis: what the database announces reaches every server.
    here = await start();
    there = await start();
    system = await buildPerson(here, { scope: 'system' });
  });
  after(async () => {
    await Promise.all([here?.close(), there?.close()]);
    await database?.drop();
  });
  beforeEach(async () => {
    open = [];
    tenant = await buildTenant(here);
  });
  afterEach(() => {
    for (const one of open) one.close();
  });

  async function watch(token: string): Promise<DashboardClient> {
    const client = await connectDashboard(there, token);
    open.push(client);
    return client;
  }
  async function agentOf(token: string, app = there): Promise<FakeDevice> {
    const agent = await connectDevice(app, token);
    open.push(agent);
    await agent.heartbeat();
    return agent;
  }
  async function send(method: string, path: string, who: { token: string }, body?: object) {
    const answer = await here.call(method, path, { token: who.token, body });
    expect(answer.status, JSON.stringify(answer.body)).to.be.within(200, 299);
    return answer.body;
  }
  const ended = (...ones: { socket: { connected: boolean } }[]) =>
    eventually(
      () => ones.map(({ socket }) => socket.connected),
      (states) => !states.includes(true),
    );
  const makeKey = (body: object) =>
    send('POST', '/api-keys', tenant.admin, { name: 'Key', scopes: ['devices:read'], ...body });

  describe('end a dashboard connection at once', () => {
    const technician = () => buildPerson(here, { scope: 'partner', partnerId: tenant.partnerId });

    const cases: Record<string, (person: Person) => Promise<unknown>> = {
      'when the person is disabled': ({ id }) =>
        send('PATCH', `/users/${id}`, tenant.admin, { status: 'disabled' }),
      'when the person is removed': ({ id }) => send('DELETE', `/users/${id}`, tenant.admin),
      'when the person is given another role': ({ id }) =>
        send('POST', `/users/${id}/role`, tenant.admin, { roleId: SYSTEM_ROLES.partnerViewer }),
      'when the person sees fewer organizations': ({ id }) =>
        send('POST', `/users/${id}/role`, tenant.admin, {
          roleId: SYSTEM_ROLES.partnerAdmin,
          orgAccess: 'selected',
          orgIds: [tenant.orgId],
        }),
      'when the person signs out': (person) => send('POST', '/auth/logout', person),
      'when the person ends their other sessions': async ({ email }) =>
        send('DELETE', '/auth/sessions', { token: await signIn(here, email) }),
      'when the person changes the password elsewhere': async ({ email }) =>
        send(
          'POST',
          '/auth/change-password',
          { token: await signIn(here, email) },
          { currentPassword: PASSWORD, newPassword: 'Another-Horse-10' },
        ),
      'when the partner is suspended': () =>
        send('PATCH', `/orgs/partners/${tenant.partnerId}`, system, { status: 'suspended' }),
      'when the partner is deleted': () => send('DELETE', `/orgs/partners/${tenant.partnerId}`, system),
    };
    for (const [when, change] of Object.entries(cases)) {
      it(when, async () => {
        const person = await technician();
        const client = await watch(person.token);
        await client.subscribe();
        await change(person);
        await ended(client);
      });
    }

    it('when the role of the person allows less', async () => {
      const role = await send('POST', '/roles', tenant.admin, {
        name: 'Watchers',
        permissions: ['devices:read', 'scripts:read'],
      });
      const person = await buildPerson(here, {
        scope: 'partner',
        partnerId: tenant.partnerId,
        role: role.id,
      });
      const client = await watch(person.token);
      await send('PATCH', `/roles/${role.id}`, tenant.admin, { permissions: ['devices:read'] });
      await ended(client);
    });

    it('when the organization or its partner of the person is gone', async () => {
      const client = await watch(tenant.technician.token);
      await send('DELETE', `/orgs/organizations/${tenant.orgId}`, tenant.admin);
      await ended(client);
      const other = await buildTenant(here);
      const another = await watch(other.technician.token);
      await send('PATCH', `/orgs/partners/${other.partnerId}`, system, { status: 'suspended' });
      await ended(another);
    });

    it('when the API key is revoked, rotated, or narrowed', async () => {
      const [revoked, rotated, narrowed] = await Promise.all([1, 2, 3].map(() => makeKey({})));
      const clients = await Promise.all([revoked, rotated, narrowed].map(({ key }) => watch(key)));
      await send('DELETE', `/api-keys/${revoked.id}`, tenant.admin);
      await send('POST', `/api-keys/${rotated.id}/rotate`, tenant.admin);
      await send('PATCH', `/api-keys/${narrowed.id}`, tenant.admin, { scopes: ['scripts:read'] });
      await ended(...clients);
    });

    it('when the API key expires', async () => {
      const soon = await makeKey({ expiresAt: new Date(Date.now() + EXPIRES_MS).toISOString() });
      const client = await watch(soon.key);
      expect((await client.subscribe()).ok).to.equal(true);
      // The clock of the database cannot be moved. Its triggers are off, because no key that expires is announced.
      await asOwner(
        database.ownerUrl,
        `set session_replication_role = replica; update api_keys set expires_at = now() where id = '${soon.id}'`,
      );
      await there.advance(EXPIRES_MS);
      await ended(client);
    });

    it('and keep connections that a change does not affect or only gives more', async () => {
      const person = await technician();
      const clients = [await watch(tenant.admin.token), await watch(person.token)];
      await send('PATCH', `/users/${tenant.technician.id}`, tenant.admin, { status: 'disabled' });
      await send('PATCH', `/users/${person.id}`, tenant.admin, { name: 'Another name' });
      for (const client of clients) expect((await client.subscribe()).ok).to.equal(true);
    });
  });

  it('cancels a running tail on the device when its user loses access to the site', async () => {
    const device = await buildDevice(here, tenant.orgId);
    const agent = await agentOf(device.token);
    const person = await buildPerson(here, { scope: 'partner', partnerId: tenant.partnerId });
    const client = await watch(person.token);
    expect((await client.send('eventlogs:tail', { deviceId: device.deviceId, name: 'System' })).ok).to.equal(
      true,
    );
    const command = await agent.nextCommand();
    await send('PATCH', `/users/${person.id}`, tenant.admin, { status: 'disabled' });
    await eventually(
      () => agent.cancelled,
      (cancelled) => cancelled.includes(command.id),
    );
  });

  describe('of an organization', () => {
    it('hide its devices once it is deleted and end queries to them', async () => {
      const [kept, gone] = [
        await buildDevice(here, tenant.orgId),
        await buildOrganization(here, tenant.partnerId),
      ];
      const doomed = await buildDevice(here, gone);
      const agent = await agentOf(doomed.token);
      const client = await watch(tenant.admin.token);
      const everything = await client.subscribe();
      expect(everything.devices.map(({ id }) => id)).to.have.members([kept.deviceId, doomed.deviceId]);
      const ofIt = await client.subscribe({ orgId: gone });
      const ends: { subscriptionId: string; code: string }[] = [];
      client.socket.on('devices:ended', (end) => ends.push(end));
      await client.send('eventlogs:tail', { deviceId: doomed.deviceId, name: 'System' });
      const command = await agent.nextCommand();
      await send('DELETE', `/orgs/organizations/${gone}`, tenant.admin);
      await eventually(
        () => client.deltas.flatMap(({ left }) => left),
        (left) => left.includes(doomed.deviceId),
      );
      await eventually(
        () => ends,
        ([end]) => end?.subscriptionId === ofIt.subscriptionId && end.code === 'FORBIDDEN',
      );
      await eventually(
        () => agent.cancelled.includes(command.id) || !agent.socket.connected,
        (over) => over,
      );
      expect(client.socket.connected).to.equal(true);
    });

    for (const [how, change] of Object.entries({
      deleted: (orgId: string) => send('DELETE', `/orgs/organizations/${orgId}`, tenant.admin),
      churned: (orgId: string) =>
        send('PATCH', `/orgs/organizations/${orgId}`, tenant.admin, { status: 'churned' }),
    })) {
      it(`close the sockets of its agents on all servers when it is ${how}, and refuse them over HTTP too`, async () => {
        const devices = [await buildDevice(here, tenant.orgId), await buildDevice(here, tenant.orgId)];
        const agents = [await agentOf(devices[0]!.token, here), await agentOf(devices[1]!.token, there)];
        await change(tenant.orgId);
        await ended(...agents);
        for (const [at, app] of [here, there].entries()) {
          const { deviceId, token } = devices[at]!;
          const refused: unknown = await connectDevice(app, token).catch((error: unknown) => error);
          expect(refused).to.nested.include({ 'refusal.code': 'TENANT_INACTIVE' });
          const answer = await app.call('POST', `/agents/${deviceId}/heartbeat`, {
            token,
            body: { at: new Date().toISOString(), agentVersion: '1.0.0' },
          });
          expect([answer.status, answer.body.code]).to.deep.equal([403, 'TENANT_INACTIVE']);
        }
      });
    }

    it('let its agents report while it is suspended, and while its partner is', async () => {
      const device = await buildDevice(here, tenant.orgId);
      const agent = await agentOf(device.token);
      await send('PATCH', `/orgs/organizations/${tenant.orgId}`, tenant.admin, { status: 'suspended' });
      await send('PATCH', `/orgs/partners/${tenant.partnerId}`, system, { status: 'suspended' });
      // The last of what was announced has surely come when this has.
      const other = await buildTenant(here);
      const client = await watch(other.admin.token);
      await send('POST', '/auth/logout', other.admin);
      await ended(client);
      expect((await agent.heartbeat()).ok).to.equal(true);
      expect((await (await agentOf(device.token, here)).heartbeat()).ok).to.equal(true);
    });

    it('accept no actions while their partner is pending or suspended, not even from system users', async () => {
      const device = await buildDevice(here, tenant.orgId);
      const command = { type: 'agent.refresh-inventory', payload: {} };
      for (const status of ['pending', 'suspended']) {
        await send('PATCH', `/orgs/partners/${tenant.partnerId}`, system, { status });
        const refused = [
          await here.call('POST', `/devices/${device.deviceId}/commands`, {
            token: system.token,
            body: command,
          }),
          await here.call('PATCH', `/devices/${device.deviceId}`, {
            token: system.token,
            body: { tags: ['x'] },
          }),
          await here.call('GET', `/devices/${device.deviceId}/eventlogs/live`, { token: system.token }),
        ];
        expect(
          refused.map(({ body }) => body.code),
          status,
        ).to.deep.equal(Array(3).fill('TENANT_INACTIVE'));
      }
      await send('PATCH', `/orgs/partners/${tenant.partnerId}`, system, { status: 'active' });
      await send('PATCH', `/devices/${device.deviceId}`, system, { tags: ['x'] });
    });
  });

  it('reconnect the agent of a device that was approved, which is given work from then on', async () => {
    const machine = { machineId: 'm-1' };
    const first = await buildDevice(here, tenant.orgId, machine);
    open.push(await connectDevice(here, first.token));
    const second = await buildDevice(here, tenant.orgId, machine);
    const waiting = await agentOf(second.token);
    expect(await waiting.heartbeat()).to.deep.include({ isPending: true });
    await send('POST', `/devices/${second.deviceId}/approve`, tenant.admin, {});
    await ended(waiting);
    expect(waiting.notices).to.deep.equal([]);
    const approved = await agentOf(second.token);
    expect(await approved.heartbeat()).not.to.have.property('isPending');
  });

  it('disconnect a decommissioned agent from a server that has just admitted it', async () => {
    const device = await buildDevice(here, tenant.orgId);
    const agent = await agentOf(device.token);
    agent.close();
    await send('DELETE', `/devices/${device.deviceId}`, tenant.admin);
    const refused = await eventually(
      () =>
        connectDevice(there, device.token).then(
          (again) => {
            again.close();
            return 'connected';
          },
          (error: { refusal?: { code: string } }) => error.refusal?.code,
        ),
      (outcome) => outcome !== 'connected',
      // What the other server knows of a token it forgets by itself after thirty seconds.
      20_000,
    );
    expect(refused).to.equal('DECOMMISSIONED');
  });
});
