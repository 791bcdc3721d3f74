import { expect } from 'chai';
import type { ServerResponse } from 'node:http';
import { eventually } from '../../../support/eventually.ts';
import { notificationGround, SIGNING_SECRET } from '../../../support/notifications/notification-ground.ts';
import { createTestApp } from '../../../support/test-app.ts';
import { testClock } from '../../../support/test-clock.ts';

const HOSTILE = '<!channel> @everyone <@U1> [click](http://evil.test)\r\nBcc: x@evil.test & "quoted"';

describe('receivers of notifications', () => {
  let ground: Awaited<ReturnType<typeof notificationGround>>;

  before(async () => {
    ground = await notificationGround();
  });
  after(async () => ground.close());
  afterEach(() => ground.clear());

  const policyOf = (...channelIds: string[]) => ground.policy({ steps: [{ afterMinutes: 0, channelIds }] });

  it('of each type take the longest and most hostile texts, and mention nobody', async () => {
    const types = ['slack', 'teams', 'discord', 'pagerduty', 'ntfy', 'webhook', 'email'];
    const channels = [];
    for (const type of types) channels.push(await ground.channel(type, `hostile ${type}`));
    await policyOf(...channels.map(({ id }) => id));
    await ground.raise({
      title: HOSTILE.repeat(3).slice(0, 290),
      message: `${HOSTILE}${'😀<&'.repeat(460)}`,
    });
    await ground.app.settle();
    const log = await ground.log();
    expect(
      log.map(({ status, error, recipient }) => error ?? `${recipient} ${status}`).toSorted(),
    ).to.deep.equal(types.map((type) => `hostile ${type} sent`).toSorted());
    const at = (type: string) => ground.receivers.at(`/${type}/hostile%20${type}`)[0]!;
    expect(at('discord').body.allowed_mentions).to.deep.equal({ parse: [] });
    expect(at('discord').body.embeds[0].description).not.to.match(/(?<!\\)@everyone/);
    expect(at('pagerduty').body.payload.severity).to.equal('error');
    expect(at('ntfy').body).to.include({ topic: 'alarm', priority: 4 });
    const [mail] = await ground.mailbox.all();
    expect(mail)
      .to.match(/^To: alarm@example\.com$/m)
      .and.not.to.match(/^Bcc:/m);
  });

  it('of webhooks get the id and a signature', async () => {
    const { id } = await ground.channel('webhook', 'signed');
    await policyOf(id);
    await ground.raise({ title: 'Signed' });
    await ground.app.settle();
    const { headers, text, body } = ground.receivers.at('/webhook/signed')[0]!;
    const key = await crypto.subtle.importKey(
      'raw',
      Buffer.from(SIGNING_SECRET.slice(6), 'base64'),
      { name: 'HMAC', hash: 'SHA-256' },
      false,
      ['verify'],
    );
    const signature = Buffer.from(String(headers['webhook-signature']).slice(3), 'base64');
    const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${text}`;
    expect(await crypto.subtle.verify('HMAC', key, signature, Buffer.from(signed))).to.equal(true);
    const [logged] = await ground.log();
    expect(headers['webhook-id']).to.equal(logged!.id);
    expect(body).to.deep.include({ id: logged!.id, type: 'notification.raised', orgId: ground.tenant.orgId });
  });

  it('that page get one incident: triggered, acknowledged and resolved by one key', async () => {
    const [page, chat] = [await ground.channel('pagerduty', 'page'), await ground.channel('slack')];
    await ground.policy({
      steps: [{ afterMinutes: 0, channelIds: [page.id, chat.id] }],
      repeatEveryMinutes: 5,
    });
    const [alertId] = await ground.raise({});
    await ground.app.settle();
    await ground.pass(5);
    await ground.call('POST', `/alerts/${alertId}/acknowledge`, {});
    await ground.app.settle();
    await ground.call('POST', `/alerts/${alertId}/resolve`, {});
    await ground.app.settle();
    const events = ground.receivers.at('/pagerduty/page').map(({ body }) => body);
    expect(events.map(({ event_action: action }) => action)).to.deep.equal([
      'trigger',
      'trigger',
      'acknowledge',
      'resolve',
    ]);
    expect(new Set(events.map(({ dedup_key: key }) => key)).size).to.equal(1);
    const log = await ground.log();
    expect(
      log.filter(({ reason }) => reason === 'acknowledged').map(({ channelId }) => channelId),
    ).to.deep.equal([page.id]);
  });

  it('that refuse a message are not asked again, and the log has their words', async () => {
    const { id } = await ground.channel('slack', 'gone');
    await policyOf(id);
    ground.receivers.answer('/slack/gone', (response) =>
      response.writeHead(404).end(`no_service ${'x'.repeat(5000)}`),
    );
    await ground.raise({});
    await ground.app.settle();
    await ground.hasten();
    const [logged] = await ground.log();
    expect(logged).to.deep.include({ status: 'failed', attempts: 1 });
    expect(logged!.error).to.match(/^The receiver answered 404\. It said: no_service x+…$/);
    expect(logged!.error!.length).to.be.at.most(300);
    const channel = (await ground.call('GET', `/notification-channels/${id}`)).body;
    expect(channel).to.include({ status: 'failing', lastError: logged!.error });
    expect(ground.receivers.at('/slack/gone')).to.have.length(1);
  });

  it('that are busy are left alone for as long as they say', async () => {
    const { id } = await ground.channel('discord', 'busy');
    await policyOf(id);
    ground.receivers.status('/discord/busy', 429, { 'retry-after': '120' });
    await ground.raise({});
    await ground.app.settle();
    const [work] = await ground.sql<{ seconds: number; paused: number }>(
      `select extract(epoch from w.due_at - now())::int as seconds, extract(epoch from c.paused_until - now())::int as paused
      from work w, notification_channels c where w.kind = 'notification' and c.id = $1`,
      [id],
    );
    expect(work!.seconds).to.be.within(100, 121);
    expect(work!.paused).to.be.within(100, 121);
    // Another alert waits as well, and does not try its luck.
    await ground.raise({});
    await ground.app.settle();
    expect(ground.receivers.at('/discord/busy')).to.have.length(1);
    ground.receivers.asUsual('/discord/busy');
    await ground.hasten();
    await ground.hasten();
    expect((await ground.log()).map(({ status }) => status)).to.deep.equal(['sent', 'sent']);
  });

  it('that fail are tried again with the same id for a day, and the channel shows it', async () => {
    const { id } = await ground.channel('webhook', 'down');
    await policyOf(id);
    ground.receivers.status('/webhook/down', 500);
    await ground.raise({});
    await ground.app.settle();
    await ground.hasten();
    const [logged] = await ground.log();
    expect(logged).to.deep.include({ status: 'pending', attempts: 2 });
    expect((await ground.call('GET', `/notification-channels/${id}`)).body.status).to.equal('failing');
    ground.receivers.asUsual('/webhook/down');
    await ground.hasten();
    expect((await ground.log())[0]).to.deep.include({ status: 'sent', attempts: 3, error: null });
    const ids = ground.receivers.at('/webhook/down').map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids).size).to.equal(1);
    expect((await ground.call('GET', `/notification-channels/${id}`)).body).to.include({
      status: 'ok',
      failingSince: null,
    });

    ground.receivers.status('/webhook/down', 500);
    await ground.raise({});
    await ground.app.settle();
    await ground.sql(
      `update work set deadline_at = now() where kind = 'notification' and finished_at is null`,
    );
    await ground.hasten();
    expect((await ground.log())[1]).to.deep.include({
      status: 'failed',
      error: 'The receiver answered 500. It said: said 500',
    });
  });

  it('that were never reached hear nothing of the end, and those that may have been do', async () => {
    const [down, slow] = [
      await ground.channel('pagerduty', 'never'),
      await ground.channel('pagerduty', 'cut'),
    ];
    await policyOf(down.id, slow.id);
    ground.receivers.status('/pagerduty/never', 500);
    // It takes the message, and its answer is lost.
    ground.receivers.answer('/pagerduty/cut', (response) => response.destroy());
    await ground.raise({ kind: 'lost' });
    await ground.app.settle();
    ground.receivers.asUsual('/pagerduty/never');
    ground.receivers.asUsual('/pagerduty/cut');
    await ground.end('lost');
    await ground.app.settle();
    await ground.hasten();
    const actions = (path: string) => ground.receivers.at(path).map(({ body }) => body.event_action);
    expect(actions('/pagerduty/never')).to.deep.equal(['trigger']);
    expect(actions('/pagerduty/cut')).to.deep.equal(['trigger', 'resolve']);
    const raised = (await ground.log()).filter(({ reason }) => reason === 'raised');
    expect(raised.map(({ status, error }) => [status, error])).to.deep.equal([
      ['suppressed', 'The alerts were resolved before this was sent.'],
      ['suppressed', 'The alerts were resolved before this was sent.'],
    ]);
  });

  it('that hang hold up only themselves, and hear of the end after the beginning', async () => {
    const [hanging, well] = [await ground.channel('slack', 'hangs'), await ground.channel('slack', 'well')];
    await policyOf(hanging.id, well.id);
    const hung: ServerResponse[] = [];
    ground.receivers.answer('/slack/hangs', (response) => void hung.push(response));
    for (let n = 0; n < 4; n++) await ground.raise({ kind: `hung_${n}` });
    const settled = ground.app.settle();
    await eventually(
      () => ground.receivers.at('/slack/well'),
      (got) => got.length === 4,
    );
    expect(ground.receivers.at('/slack/hangs')).to.have.length(2);
    ground.receivers.asUsual('/slack/hangs');
    for (const response of hung) response.writeHead(200).end('ok');
    await settled;
    expect(new Set((await ground.log()).map(({ status }) => status))).to.deep.equal(new Set(['sent']));
  });

  it('that never answer are given up after some seconds', async () => {
    const { id } = await ground.channel('slack', 'silent');
    await policyOf(id);
    const hung: ServerResponse[] = [];
    ground.receivers.answer('/slack/silent', (response) => void hung.push(response));
    await ground.raise({});
    const settled = ground.app.settle();
    await eventually(
      () => hung,
      (all) => all.length === 1,
    );
    await testClock.advance(11_000);
    await settled;
    testClock.jump(-11_000);
    const [logged] = await ground.log();
    expect(logged).to.deep.include({
      status: 'pending',
      attempts: 1,
      error: 'The server at this URL did not answer in time.',
    });
    for (const response of hung) response.destroy();
  });

  it('are told again with the same id when a server dies between sending and recording', async () => {
    const { id } = await ground.channel('webhook', 'dies');
    await policyOf(id);
    let answer = () => {};
    ground.receivers.answer('/webhook/dies', (response) => {
      answer = () => void response.writeHead(200).end();
    });
    await ground.raise({});
    const late = ground.app.settle();
    await eventually(
      () => ground.receivers.at('/webhook/dies'),
      (got) => got.length === 1,
    );
    ground.receivers.asUsual('/webhook/dies');
    // The other servers take it for dead.
    await ground.sql(`update work_holders set alive_until = now() - interval '1 second'`);
    const second = await createTestApp({ ...ground.settings, database: ground.app.database });
    try {
      await second.settle();
      expect((await ground.log())[0]).to.deep.include({ status: 'sent', attempts: 2 });
      answer();
      await late;
    } finally {
      await second.close();
    }
    expect((await ground.log())[0]).to.deep.include({ status: 'sent', attempts: 2 });
    const ids = ground.receivers.at('/webhook/dies').map(({ headers }) => headers['webhook-id']);
    expect(ids).to.have.length(2);
    expect(new Set(ids).size).to.equal(1);
  });

  it('are told once by two servers side by side', async () => {
    const { id } = await ground.channel('webhook', 'shared');
    await ground.policy({
      steps: [
        { afterMinutes: 0, channelIds: [id] },
        { afterMinutes: 10, channelIds: [id] },
      ],
    });
    const second = await createTestApp({ ...ground.settings, database: ground.app.database });
    try {
      for (let n = 0; n < 20; n++) await ground.raise({});
      const received = () => ground.receivers.at('/webhook/shared');
      await Promise.all([ground.app.settle(), second.settle()]);
      // What one server has begun, the other does not wait for.
      await eventually(received, ({ length }) => length >= 20);
      await Promise.all([ground.app.settle(), second.settle()]);
      expect(received()).to.have.length(20);
      await ground.sql(
        `update notification_groups set began_at = began_at - interval '10 minutes', due_at = now()`,
      );
      await Promise.all([ground.app.settle(), second.settle()]);
      await second.settle();
    } finally {
      await second.close();
    }
    await ground.hasten();
    const ids = ground.receivers.at('/webhook/shared').map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids).size).to.equal(40);
    expect((await ground.log()).map(({ status }) => status)).to.deep.equal(
      Array.from({ length: 40 }, () => 'sent'),
    );
  });
});
