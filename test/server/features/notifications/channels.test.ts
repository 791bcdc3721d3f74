import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { buildOrganization, buildPerson, buildTenant } from '../../../support/factories.ts';
import { notificationGround } from '../../../support/notifications/notification-ground.ts';

describe('notification channels', () => {
  let ground: Awaited<ReturnType<typeof notificationGround>>;

  before(async () => {
    ground = await notificationGround();
  });
  after(async () => ground.close());

  const create = (body: object) =>
    ground.call('POST', '/notification-channels', { orgId: ground.tenant.orgId, ...body });
  const key = 'A'.repeat(32);

  it('are created, listed, changed and deleted, and never show their secret', async () => {
    const url = ground.receivers.url('/slack/secret-path');
    const created = await create({ name: 'Chat', type: 'slack', details: {}, secret: url });
    expect(created.status).to.equal(201);
    expect(created.body).to.deep.include({
      orgId: ground.tenant.orgId,
      name: 'Chat',
      type: 'slack',
      details: {},
      hasSecret: true,
      status: 'untested',
      lastError: null,
    });
    const path = `/notification-channels/${created.body.id}`;
    const renamed = await ground.call('PATCH', path, { name: 'Room' });
    expect(renamed.body).to.include({ name: 'Room', hasSecret: true });
    const list = await ground.call('GET', `/notification-channels?orgId=${ground.tenant.orgId}`);
    expect(list.body.data.map(({ name }: { name: string }) => name)).to.include('Room');
    const audit = await ground.call('GET', '/audit-logs?limit=100');
    for (const answer of [created, renamed, list, audit]) {
      expect(JSON.stringify(answer.body)).not.to.include('secret-path');
    }
    const stored = await ground.sql('select * from notification_channels');
    expect(JSON.stringify(stored)).not.to.include('secret-path');
    expect((await ground.call('DELETE', path)).status).to.equal(200);
    expect((await ground.call('GET', path)).status).to.equal(404);
  });

  const refused: [string, object, string][] = [
    ['mail without an address', { type: 'email', details: {} }, 'body.details.address'],
    [
      'mail with a secret',
      { type: 'email', details: { address: 'a@example.com' }, secret: 'x' },
      'body.secret',
    ],
    [
      'an address with a second line',
      { type: 'email', details: { address: 'a@example.com\nb' } },
      'body.details.address',
    ],
    ['Slack without its URL', { type: 'slack', details: {} }, 'body.secret'],
    [
      'Slack with a topic',
      { type: 'slack', details: { topic: 'a' }, secret: 'https://x.test' },
      'body.details.topic',
    ],
    ['a URL inside', { type: 'slack', details: {}, secret: 'https://10.0.0.1/' }, 'body.secret'],
    [
      'plain HTTP',
      { type: 'webhook', details: { url: 'http://127.0.0.1/' }, secret: `whsec_${'A'.repeat(44)}` },
      'body.details.url',
    ],
    ['a short key of PagerDuty', { type: 'pagerduty', details: {}, secret: 'abc' }, 'body.secret'],
    [
      'a signing secret of 3 bytes',
      { type: 'webhook', details: { url: 'https://127.0.0.1/' }, secret: 'whsec_AAAA' },
      'body.secret',
    ],
    [
      'a topic with a slash',
      { type: 'ntfy', details: { server: 'https://127.0.0.1/', topic: 'a/b' } },
      'body.details.topic',
    ],
    [
      'a token with a second line',
      { type: 'ntfy', details: { server: 'https://127.0.0.1/', topic: 'a' }, secret: 'a\r\nx: y' },
      'body.secret',
    ],
    ['an unknown type', { type: 'pigeon', details: {} }, 'body.type'],
  ];
  for (const [what, body, field] of refused) {
    it(`refuse ${what}, and name the field`, async () => {
      const answer = await create({ name: `Refused ${what}`, ...body });
      expect(answer.status).to.equal(400);
      expect(JSON.stringify(answer.body)).to.include(field);
    });
  }

  it('send their secret to no other address than the one that it was given for', async () => {
    const { id } = await ground.channel('ntfy', 'kept');
    const path = `/notification-channels/${id}`;
    const elsewhere = { server: ground.receivers.url('/thief'), topic: 'alarm' };
    const answer = await ground.call('PATCH', path, { details: elsewhere });
    expect(answer.status).to.equal(400);
    expect(JSON.stringify(answer.body)).to.include('body.secret');
    expect((await ground.call('PATCH', path, { details: elsewhere, secret: null })).body.hasSecret).to.equal(
      false,
    );
    await ground.call('POST', `${path}/test`);
    expect(ground.receivers.at('/thief')[0]!.headers.authorization).to.equal(undefined);
    const page = await ground.channel('pagerduty', 'kept page');
    const moved = { details: { url: ground.receivers.url('/thief') } };
    expect((await ground.call('PATCH', `/notification-channels/${page.id}`, moved)).status).to.equal(400);
    const cleared = await ground.call('PATCH', `/notification-channels/${page.id}`, { secret: null });
    expect(cleared.status).to.equal(400);
  });

  it('are tested at once, and show and log what came of it', async () => {
    const { id } = await ground.channel('discord', 'tested');
    const path = `/notification-channels/${id}`;
    const good = await ground.call('POST', `${path}/test`);
    expect(good.body).to.deep.include({ ok: true, responseStatus: 200, error: null });
    expect((await ground.call('GET', path)).body).to.include({ status: 'ok' });
    ground.receivers.status('/discord/tested', 401);
    const bad = await ground.call('POST', `${path}/test`);
    expect(bad.body).to.include({ ok: false, responseStatus: 401 });
    expect((await ground.call('GET', path)).body).to.include({
      status: 'failing',
      lastError: bad.body.error,
    });
    const log = await ground.log(`&channelId=${id}`);
    expect(log.map(({ reason, status }) => [reason, status])).to.deep.equal([
      ['test', 'sent'],
      ['test', 'failed'],
    ]);
    const answers = [];
    for (let n = 0; n < 9; n++) answers.push(await ground.call('POST', `${path}/test`));
    expect(answers.at(-1)!.status).to.equal(429);
  });

  it('have names of their own, and a limit', async () => {
    await ground.channel('email', 'Twice');
    const again = await create({ name: 'TWICE', type: 'email', details: { address: 'a@example.com' } });
    expect(again.status).to.equal(409);
    await ground.sql(
      `insert into notification_channels (id, partner_id, org_id, name, type, details)
      select new_row_id(), $1, $2, 'Filler ' || n, 'email', '{"address":"a@example.com"}' from generate_series(1, 50) n`,
      [ground.tenant.partnerId, ground.tenant.orgId],
    );
    const more = await create({ name: 'One more', type: 'email', details: { address: 'a@example.com' } });
    expect(more.status).to.equal(403);
    expect(more.body.code).to.equal('LIMIT_REACHED');
    await ground.sql(`delete from notification_channels where name like 'Filler%'`);
  });

  it('that a policy uses stay', async () => {
    const { id } = await ground.channel('slack', 'in use');
    const policy = await ground.policy({ name: 'Uses it', steps: [{ afterMinutes: 0, channelIds: [id] }] });
    const answer = await ground.call('DELETE', `/notification-channels/${id}`);
    expect(answer.status).to.equal(409);
    expect(JSON.stringify(answer.body)).to.include('Uses it');
    await ground.call('DELETE', `/notification-policies/${policy.id}`);
    expect((await ground.call('DELETE', `/notification-channels/${id}`)).status).to.equal(200);
  });

  it('are seen and changed by nobody of another tenant, nor by those who may only read', async () => {
    const { app, tenant } = ground;
    const own = await ground.channel('pagerduty', 'own', { secret: key });
    const ofPartner = await ground.channel('email', 'of partner', { orgId: undefined });
    const foreign = await buildTenant(app);
    const otherOrgId = await buildOrganization(app, tenant.partnerId);
    const selected = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [otherOrgId],
    });
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    for (const { id } of [own, ofPartner]) {
      for (const person of [foreign.admin, selected]) {
        const as = ground.as(person.token);
        expect((await as('GET', `/notification-channels/${id}`)).status).to.equal(404);
        expect((await as('PATCH', `/notification-channels/${id}`, { name: 'Mine' })).status).to.equal(404);
        expect((await as('POST', `/notification-channels/${id}/test`)).status).to.equal(404);
        expect((await as('DELETE', `/notification-channels/${id}`)).status).to.equal(404);
      }
    }
    const asViewer = ground.as(viewer.token);
    expect((await asViewer('GET', `/notification-channels/${own.id}`)).status).to.equal(200);
    expect((await asViewer('PATCH', `/notification-channels/${own.id}`, { name: 'Mine' })).status).to.equal(
      403,
    );
    // The channels of the partner are not the organization's to see.
    expect((await asViewer('GET', `/notification-channels/${ofPartner.id}`)).status).to.equal(404);
    const partners = await ground.as(selected.token)('POST', '/notification-channels', {
      name: 'For all',
      type: 'email',
      details: { address: 'a@example.com' },
    });
    expect(partners.status).to.equal(403);
  });
});
