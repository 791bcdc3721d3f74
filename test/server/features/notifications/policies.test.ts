import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
} from '../../../support/factories.ts';
import { notificationGround } from '../../../support/notifications/notification-ground.ts';

describe('notification policies', () => {
  let ground: Awaited<ReturnType<typeof notificationGround>>;

  before(async () => {
    ground = await notificationGround();
  });
  after(async () => ground.close());
  afterEach(() => ground.clear());

  const step = (...channelIds: string[]) => [{ afterMinutes: 0, channelIds }];
  const create = (body: object, orgId: string | undefined = ground.tenant.orgId) =>
    ground.call('POST', '/notification-policies', { orgId, name: 'A policy', ...body });

  it('are created with defaults, named with whom they tell, changed, ordered and deleted', async () => {
    const { admin, orgId } = ground.tenant;
    const { id: channelId } = await ground.channel('slack', 'room');
    const created = await create({
      name: 'First',
      groupBy: 'site',
      steps: [{ afterMinutes: 0, channelIds: [channelId], userIds: [admin.id] }],
    });
    expect(created.body).to.deep.include({
      orgId,
      position: 0,
      enabled: true,
      match: {},
      groupSeconds: 30,
      repeatEveryMinutes: null,
      until: 'acknowledged',
      channels: [{ id: channelId, name: 'room', type: 'slack' }],
    });
    expect(created.body.users).to.have.length(1);
    expect(created.body.steps).to.deep.equal([
      { afterMinutes: 0, channelIds: [channelId], userIds: [admin.id] },
    ]);
    const second = await ground.policy({ name: 'Second', steps: step(channelId) });
    const order = [second.id, created.body.id];
    const ordered = await ground.call('PUT', '/notification-policies/order', { orgId, policyIds: order });
    expect(ordered.body).to.deep.equal({ policyIds: order });
    const list = await ground.call('GET', `/notification-policies?orgId=${orgId}`);
    expect(list.body.data.map(({ id }: { id: string }) => id)).to.deep.equal(order);
    const incomplete = await ground.call('PUT', '/notification-policies/order', {
      orgId,
      policyIds: [second.id],
    });
    expect(incomplete.status).to.equal(400);
    const patched = await ground.call('PATCH', `/notification-policies/${second.id}`, { enabled: false });
    expect(patched.body).to.deep.include({ enabled: false, name: 'Second' });
    await ground.call('DELETE', `/notification-policies/${second.id}`);
    expect((await ground.call('GET', `/notification-policies/${created.body.id}`)).body.position).to.equal(0);
  });

  it('can be deleted and ordered at the same moment', async () => {
    const { orgId } = ground.tenant;
    const { id: channelId } = await ground.channel('slack');
    const { id: stays } = await ground.policy({ steps: step(channelId) });
    for (let round = 0; round < 15; round += 1) {
      const { id } = await ground.policy({ steps: step(channelId) });
      const [deleted, ordered] = await Promise.all([
        ground.call('DELETE', `/notification-policies/${id}`),
        ground.call('PUT', '/notification-policies/order', { orgId, policyIds: [id, stays] }),
      ]);
      expect(deleted.status, JSON.stringify(deleted.body)).to.equal(200);
      // The policy may be gone by then.
      expect(ordered.status, JSON.stringify(ordered.body)).to.be.oneOf([200, 400]);
    }
    expect((await ground.call('GET', `/notification-policies/${stays}`)).body.position).to.equal(0);
  });

  it('name nobody and nothing of another tenant', async () => {
    const { app, tenant } = ground;
    const foreign = await buildTenant(app);
    const otherOrgId = await buildOrganization(app, tenant.partnerId);
    const otherSite = await buildSite(app, otherOrgId);
    const otherPerson = await buildPerson(app, { scope: 'organization', orgId: otherOrgId });
    const { id: own } = await ground.channel('slack');
    const { id: ofOther } = await ground.channel('slack', 'of other', { orgId: otherOrgId });
    const { id: ofPartner } = await ground.channel('slack', 'of partner', { orgId: undefined });
    const cases: [object, string][] = [
      [{ steps: step(ofOther) }, 'body.steps.0.channelIds.0'],
      [{ steps: [{ afterMinutes: 0, userIds: [foreign.admin.id] }] }, 'body.steps.0.userIds.0'],
      [{ steps: [{ afterMinutes: 0, userIds: [otherPerson.id] }] }, 'body.steps.0.userIds.0'],
      [{ steps: step(own), match: { siteIds: [otherSite] } }, 'body.match.siteIds.0'],
      [{ steps: step(own), match: { orgIds: [tenant.orgId] } }, 'body.match.orgIds'],
      [{ steps: [{ afterMinutes: 0 }] }, 'body.steps.0.channelIds'],
      [{ steps: [...step(own), ...step(own)] }, 'body.steps.1.afterMinutes'],
      [{ steps: [] }, 'body.steps'],
    ];
    for (const [body, field] of cases) {
      const answer = await create(body);
      expect(answer.status, JSON.stringify(body)).to.equal(400);
      expect(JSON.stringify(answer.body)).to.include(field);
    }
    expect((await create({ steps: step(own, ofPartner) })).status).to.equal(201);
    const partners = await ground.call('POST', '/notification-policies', {
      name: 'Of all',
      steps: step(own),
    });
    expect(partners.status).to.equal(400);
  });

  it('show an organization the channels of its partner that its policies use, by name and no more', async () => {
    const { app, tenant } = ground;
    const { id: ofPartner } = await ground.channel('email', 'Night shift', { orgId: undefined });
    const { id: own } = await ground.channel('email', 'Own');
    const { body } = await create({ name: 'Shared', steps: step(ofPartner) });
    const admin = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    const as = ground.as(admin.token);
    const shown = await as('GET', `/notification-policies/${body.id}`);
    expect(shown.body.channels).to.deep.equal([{ id: ofPartner, name: 'Night shift', type: 'email' }]);
    expect((await as('GET', `/notification-channels/${ofPartner}`)).status).to.equal(404);
    // What is there may stay; it may not be added.
    const kept = await as('PATCH', `/notification-policies/${body.id}`, { steps: step(ofPartner, own) });
    expect(kept.status).to.equal(200);
    const added = await as('POST', '/notification-policies', { name: 'Taken', steps: step(ofPartner) });
    expect(added.status).to.equal(400);
  });

  it('of an organization come before those of its partner, which fit what they leave', async () => {
    const { app, tenant } = ground;
    const { id: own } = await ground.channel('slack', 'first own');
    const { id: ofPartner } = await ground.channel('slack', 'then partner', { orgId: undefined });
    const otherOrgId = await buildOrganization(app, tenant.partnerId);
    await ground.call('POST', '/notification-policies', {
      name: 'Of partner',
      steps: step(ofPartner),
      match: { orgIds: [tenant.orgId] },
    });
    await create({ name: 'Own', steps: step(own), match: { severities: ['critical'] } });
    await ground.raise({ severity: 'critical' });
    await ground.raise({ severity: 'low' });
    await ground.raise({ severity: 'low', orgId: otherOrgId });
    await ground.app.settle();
    expect((await ground.log()).map(({ channelId }) => channelId)).to.have.members([own, ofPartner]);
    expect(await ground.sql('select from notifications where org_id = $1', [otherOrgId])).to.have.length(0);
  });

  it('are simulated with the rounds’ own rules', async () => {
    const { app, tenant } = ground;
    const device = await buildDevice(app, tenant.orgId);
    const { id: own } = await ground.channel('slack', 'simulated');
    await ground.call('PATCH', '/users/me/notification-settings', { severities: ['critical'] });
    await create({ name: 'Elsewhere', steps: step(own), match: { siteIds: [tenant.siteId] } });
    await create({
      name: 'Here',
      match: { siteIds: [device.siteId] },
      steps: [...step(own), { afterMinutes: 15, userIds: [tenant.admin.id] }],
      repeatEveryMinutes: 5040,
    });
    const simulate = (body: object) =>
      ground.call('POST', '/notification-policies/simulate', {
        orgId: tenant.orgId,
        severity: 'high',
        kind: 'device_offline',
        at: '2026-06-01T10:00:00Z',
        ...body,
      });
    const isElsewhere = device.siteId === tenant.siteId;
    const { body } = await simulate({ deviceId: device.deviceId });
    expect(body.policyName).to.equal(isElsewhere ? 'Elsewhere' : 'Here');
    if (!isElsewhere) {
      expect(body.considered.map(({ fault }: { fault: string }) => fault)).to.deep.equal([
        'It is for other sites.',
        null,
      ]);
      expect(body.timeline.slice(0, 3)).to.deep.equal([
        {
          at: '2026-06-01T10:00:00.000Z',
          reason: 'raised',
          step: 1,
          channelId: own,
          userId: null,
          name: 'simulated',
          suppressed: null,
        },
        {
          at: '2026-06-01T10:15:00.000Z',
          reason: 'escalated',
          step: 2,
          channelId: null,
          userId: tenant.admin.id,
          name: body.timeline[1].name,
          suppressed: 'The person does not want alerts of this severity.',
        },
        {
          at: '2026-06-04T22:15:00.000Z',
          reason: 'repeated',
          step: 2,
          channelId: own,
          userId: null,
          name: 'simulated',
          suppressed: null,
        },
      ]);
    }
    expect((await simulate({})).body).to.deep.include({ policyId: null, timeline: [] });
    const foreign = await buildTenant(app);
    const asForeign = await ground.as(foreign.admin.token)('POST', '/notification-policies/simulate', {
      orgId: tenant.orgId,
      severity: 'high',
      kind: 'device_offline',
    });
    expect(asForeign.status).to.equal(403);
    await ground.call('PATCH', '/users/me/notification-settings', { severities: null });
  });

  it('tell nobody who has lost the right to see the organization', async () => {
    const { app, tenant } = ground;
    const person = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    await create({ name: 'Leaves', steps: [{ afterMinutes: 0, userIds: [person.id] }] });
    await ground.sql('delete from organization_users where user_id = $1', [person.id]);
    await ground.raise({});
    await ground.app.settle();
    expect((await ground.log()).map(({ status, error }) => [status, error])).to.deep.equal([
      ['suppressed', 'The person does not reach the organization any more.'],
    ]);
  });

  it('that are disabled or deleted tell nobody anything but the end', async () => {
    const { id: channelId } = await ground.channel('slack');
    const steps = [...step(channelId), { afterMinutes: 5, channelIds: [channelId] }];
    const { id } = await ground.policy({ steps });
    await ground.raise({ kind: 'left_over' });
    await ground.app.settle();
    await ground.call('DELETE', `/notification-policies/${id}`);
    await ground.pass(10);
    await ground.raise({});
    await ground.end('left_over');
    await ground.app.settle();
    expect((await ground.log()).map(({ reason }) => reason)).to.deep.equal(['raised', 'resolved']);
  });

  it('are seen by nobody of another tenant, and neither is the log', async () => {
    const { app, tenant } = ground;
    const { id: channelId } = await ground.channel('slack');
    const { id } = await ground.policy({ steps: step(channelId) });
    await ground.raise({});
    await ground.app.settle();
    const foreign = await buildTenant(app);
    const as = ground.as(foreign.admin.token);
    expect((await as('GET', `/notification-policies/${id}`)).status).to.equal(404);
    expect((await as('PATCH', `/notification-policies/${id}`, { name: 'Mine' })).status).to.equal(404);
    expect((await as('DELETE', `/notification-policies/${id}`)).status).to.equal(404);
    expect((await as('GET', '/notifications')).body.data).to.deep.equal([]);
    expect((await as('GET', `/notifications?orgId=${tenant.orgId}`)).status).to.equal(403);
    expect(await ground.log()).to.have.length(1);
  });
});
