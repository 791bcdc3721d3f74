import { expect } from 'chai';
import { buildDevice, buildOrganization, buildSite } from '../../../support/factories.ts';
import { notificationGround } from '../../../support/notifications/notification-ground.ts';

describe('alerts', () => {
  let ground: Awaited<ReturnType<typeof notificationGround>>;

  before(async () => {
    ground = await notificationGround();
  });
  after(async () => ground.close());
  afterEach(() => ground.clear());

  const reasons = async () => (await ground.log()).map(({ reason, status }) => `${reason} ${status}`);

  it('are told to those whom the first policy that fits names, and to no others', async () => {
    const [first, second] = [await ground.channel('slack', 'first'), await ground.channel('slack', 'second')];
    await ground.policy({
      match: { kinds: ['other'] },
      steps: [{ afterMinutes: 0, channelIds: [second.id] }],
    });
    await ground.policy({
      match: { severities: ['high'] },
      steps: [{ afterMinutes: 0, channelIds: [first.id] }],
    });
    await ground.policy({ steps: [{ afterMinutes: 0, channelIds: [second.id] }] });
    const [alertId] = await ground.raise({ title: 'Disk of DESK-1 is almost full' });
    await ground.app.settle();
    expect(ground.receivers.at('/slack/first')).to.have.length(1);
    expect(ground.receivers.at('/slack/second')).to.have.length(0);
    const { body } = ground.receivers.at('/slack/first')[0]!;
    expect(body.text).to.equal('Disk of DESK-1 is almost full');
    expect(JSON.stringify(body)).to.include(`https://rmm.example.com/alerts?alert=${alertId}`);
    const [only, ...others] = await ground.log(`&alertId=${alertId}`);
    expect(only).to.deep.include({
      reason: 'raised',
      status: 'sent',
      step: 1,
      channelId: first.id,
      recipient: 'first',
      attempts: 1,
      alertCount: 1,
      error: null,
    });
    expect(others).to.deep.equal([]);
    const shown = (await ground.call('GET', `/notification-channels/${first.id}`)).body;
    expect(shown).to.include({ status: 'ok', lastError: null });
  });

  it('are told to nobody if no policy fits', async () => {
    const { id } = await ground.channel('slack');
    await ground.policy({
      match: { severities: ['critical'] },
      steps: [{ afterMinutes: 0, channelIds: [id] }],
    });
    await ground.raise({ severity: 'low' });
    await ground.app.settle();
    expect(await ground.log()).to.deep.equal([]);
  });

  it('about devices in maintenance are told when it ends, if they are not over by then', async () => {
    const { id } = await ground.channel('slack', 'patch night');
    await ground.policy({ steps: [{ afterMinutes: 0, channelIds: [id] }] });
    const { deviceId } = await buildDevice(ground.app, ground.tenant.orgId);
    const start = new Date(Date.now() - 600_000).toISOString().slice(0, 16);
    const planned = await ground.call('POST', '/maintenance-windows', {
      orgId: ground.tenant.orgId,
      name: 'Patch night',
      target: { deviceIds: [deviceId] },
      timezone: 'UTC',
      start,
      durationMinutes: 60,
    });
    expect(planned.status, JSON.stringify(planned.body)).to.equal(201);
    await ground.app.settle();
    await ground.raise(
      { deviceId, kind: 'backup_failed', title: 'Backup failed' },
      { deviceId, kind: 'service_down', title: 'Service is down' },
      { title: 'Of no device' },
    );
    await ground.app.settle();
    const told = () => ground.receivers.at('/slack/patch%20night').map(({ body }) => body.text);
    expect(told()).to.deep.equal(['Of no device']);
    await ground.end('backup_failed', deviceId);
    await ground.pass(40);
    expect(told()).to.deep.equal(['Of no device']);
    await ground.pass(20);
    expect(told()).to.deep.equal(['Of no device', 'Service is down']);
    await ground.call('DELETE', `/maintenance-windows/${planned.body.id}`);
  });

  it('escalate until somebody acknowledges them', async () => {
    const [first, second, third] = [
      await ground.channel('slack'),
      await ground.channel('discord'),
      await ground.channel('teams'),
    ];
    await ground.policy({
      steps: [
        { afterMinutes: 0, channelIds: [first.id] },
        { afterMinutes: 10, channelIds: [second.id] },
        { afterMinutes: 20, channelIds: [third.id] },
      ],
    });
    const [alertId] = await ground.raise({});
    await ground.app.settle();
    await ground.pass(9);
    expect(await reasons()).to.deep.equal(['raised sent']);
    await ground.pass(1);
    expect(await reasons()).to.deep.equal(['raised sent', 'escalated sent']);
    expect((await ground.log())[1]).to.deep.include({ channelId: second.id, step: 2 });
    expect((await ground.call('POST', `/alerts/${alertId}/acknowledge`, {})).status).to.equal(200);
    await ground.app.settle();
    await ground.pass(60);
    expect(await reasons()).to.deep.equal(['raised sent', 'escalated sent']);
  });

  it('escalate until they are resolved, if the policy says so', async () => {
    const [first, second] = [await ground.channel('slack'), await ground.channel('slack')];
    await ground.policy({
      until: 'resolved',
      steps: [
        { afterMinutes: 0, channelIds: [first.id] },
        { afterMinutes: 10, channelIds: [second.id] },
      ],
    });
    const [alertId] = await ground.raise({});
    await ground.app.settle();
    await ground.call('POST', `/alerts/${alertId}/acknowledge`, {});
    await ground.app.settle();
    await ground.pass(10);
    expect(await reasons()).to.deep.equal(['raised sent', 'escalated sent']);
    await ground.call('POST', `/alerts/${alertId}/resolve`, {});
    await ground.app.settle();
    expect(await reasons()).to.deep.equal([
      'raised sent',
      'escalated sent',
      'resolved sent',
      'resolved sent',
    ]);
  });

  it('are told again to everybody after the last step, once for each time that is due', async () => {
    const { id } = await ground.channel('slack');
    await ground.policy({ steps: [{ afterMinutes: 0, channelIds: [id] }], repeatEveryMinutes: 15 });
    await ground.raise({});
    await ground.app.settle();
    await ground.pass(15);
    expect(await reasons()).to.deep.equal(['raised sent', 'repeated sent']);
    // The servers were down for an hour: what was missed is told once.
    await ground.pass(60);
    expect(await reasons()).to.deep.equal(['raised sent', 'repeated sent', 'repeated sent']);
    await ground.pass(14);
    expect(await reasons()).to.have.length(3);
  });

  it('that are over are told once, to those who were told of them', async () => {
    const [told, untold] = [await ground.channel('slack'), await ground.channel('slack')];
    await ground.policy({
      steps: [
        { afterMinutes: 0, channelIds: [told.id] },
        { afterMinutes: 30, channelIds: [untold.id] },
      ],
    });
    await ground.raise({ kind: 'ends' });
    await ground.app.settle();
    await ground.end('ends');
    await ground.app.settle();
    await ground.pass(100);
    expect((await ground.log()).map(({ reason, channelId }) => [reason, channelId])).to.deep.equal([
      ['raised', told.id],
      ['resolved', told.id],
    ]);
  });

  it('that are over before anybody was told are told to nobody', async () => {
    const { id } = await ground.channel('slack');
    await ground.policy({
      groupBy: 'site',
      groupSeconds: 60,
      steps: [{ afterMinutes: 0, channelIds: [id] }],
    });
    await ground.raise({ kind: 'short' });
    await ground.app.settle();
    await ground.end('short');
    await ground.app.settle();
    await ground.pass(10);
    // In the same moment as well.
    await ground.raise({ kind: 'shorter' });
    await ground.end('shorter');
    await ground.app.settle();
    await ground.pass(10);
    expect(await ground.log()).to.deep.equal([]);
  });

  it('that come again are a new conversation', async () => {
    const { id } = await ground.channel('slack');
    await ground.policy({ steps: [{ afterMinutes: 0, channelIds: [id] }] });
    await ground.raise({ kind: 'again' });
    await ground.app.settle();
    await ground.end('again');
    await ground.app.settle();
    await ground.raise({ kind: 'again' });
    await ground.app.settle();
    const log = await ground.log();
    expect(log.map(({ reason }) => reason)).to.deep.equal(['raised', 'resolved', 'raised']);
    expect(new Set(log.map(({ groupId }) => groupId)).size).to.equal(2);
  });

  it('that become worse reach the policy of what they are now', async () => {
    const { id } = await ground.channel('slack');
    await ground.policy({
      match: { severities: ['critical'] },
      steps: [{ afterMinutes: 0, channelIds: [id] }],
    });
    const [alertId] = await ground.raise({ severity: 'low' });
    await ground.app.settle();
    await ground.sql(`update alerts set severity = 'critical' where id = $1`, [alertId]);
    await ground.app.settle();
    expect(await reasons()).to.deep.equal(['raised sent']);
  });

  it('of a device that is deleted end as well, so that no incident stays open', async () => {
    const { id } = await ground.channel('pagerduty', 'deleted');
    await ground.policy({ steps: [{ afterMinutes: 0, channelIds: [id] }], repeatEveryMinutes: 5 });
    const [alertId] = await ground.raise({});
    await ground.app.settle();
    await ground.sql('delete from alerts where id = $1', [alertId]);
    await ground.pass(24 * 60);
    expect(await reasons()).to.deep.equal(['raised sent', 'resolved sent']);
    const events = ground.receivers.at('/pagerduty/deleted').map(({ body }) => body.event_action);
    expect(events).to.deep.equal(['trigger', 'resolve']);
    const states = await ground.sql('select state from notification_groups');
    expect(states).to.deep.equal([{ state: 'closed' }]);
  });

  it('of a device that moves to another organization end in the one, and begin in the other', async () => {
    const { admin, partnerId, orgId } = ground.tenant;
    const other = await buildOrganization(ground.app, partnerId);
    const [here, there] = [
      await ground.channel('slack', 'here'),
      await ground.channel('slack', 'there', { orgId: other }),
    ];
    await ground.policy({ steps: [{ afterMinutes: 0, channelIds: [here.id] }], repeatEveryMinutes: 10 });
    await ground.policy({ orgId: other, steps: [{ afterMinutes: 0, channelIds: [there.id] }] });
    const { deviceId } = await buildDevice(ground.app, orgId);
    const move = async (target: string) => {
      const siteId = await buildSite(ground.app, target);
      const moved = await ground.as(admin.token)('POST', `/devices/${deviceId}/move`, {
        orgId: target,
        siteId,
      });
      expect(moved.status, JSON.stringify(moved.body)).to.equal(200);
    };
    const told = (name: string) => ground.receivers.at(`/slack/${name}`).map(({ body }) => body.text);
    const [alertId] = await ground.raise({ deviceId, title: 'Disk is almost full' });
    await ground.app.settle();
    expect(told('here')).to.deep.equal(['Disk is almost full']);
    await move(other);
    await ground.sql(`update alerts set title = 'A secret of the other organization' where id = $1`, [
      alertId,
    ]);
    await ground.app.settle();
    await ground.pass(10);
    expect(JSON.stringify(ground.receivers.at('/slack/here'))).to.not.include('secret');
    expect((await ground.log()).map(({ reason }) => reason)).to.deep.equal(['raised', 'resolved']);
    expect(told('there')).to.deep.equal(['A secret of the other organization']);

    // One that nobody has been told of yet is told where the device is now.
    await ground.raise({ deviceId, orgId: other, title: 'Fan stands still' });
    await move(orgId);
    await ground.app.settle();
    const texts = (name: string) => told(name).join();
    expect([texts('here').includes('Fan'), texts('there').includes('Fan')]).to.deep.equal([true, false]);
  });

  it('reach people by mail in a thread, in plain text and HTML', async () => {
    const { admin } = ground.tenant;
    await ground.policy({ steps: [{ afterMinutes: 0, userIds: [admin.id] }], repeatEveryMinutes: 5 });
    await ground.raise({ kind: 'mailed', title: 'Disk of <b>DESK</b> is full' });
    await ground.app.settle();
    await ground.pass(5);
    await ground.end('mailed');
    await ground.app.settle();
    const mails = (await ground.mailbox.all()).filter((mail) => mail.includes(`To: ${admin.email}`));
    expect(mails).to.have.length(3);
    const ids = mails.map((mail) => /^Message-ID: (.*)$/im.exec(mail)?.[1]);
    expect(new Set(ids).size).to.equal(3);
    const threads = mails.map((mail) => /^References: (.*)$/im.exec(mail)?.[1]);
    expect(new Set(threads).size).to.equal(1);
    expect(threads[0]).to.match(/@rmm\.example\.com>$/);
    const subjects = mails.map((mail) => /^Subject: (.*)$/im.exec(mail)?.[1]);
    expect(subjects).to.have.members([
      'Disk of <b>DESK</b> is full',
      'Re: Disk of <b>DESK</b> is full',
      'Re: Disk of <b>DESK</b> is full',
    ]);
    expect(mails[0]).to.include('text/plain').and.to.include('text/html').and.to.include('&lt;b&gt;DESK');
  });

  it('are told to no person who has quiet hours or other severities, and the log says why', async () => {
    const { admin } = ground.tenant;
    const rules = (patch: object) => ground.call('PATCH', '/users/me/notification-settings', patch);
    await ground.policy({ steps: [{ afterMinutes: 0, userIds: [admin.id] }] });
    await rules({ quietHours: { from: '00:00', to: '00:00', timezone: 'UTC' } });
    await ground.raise({ severity: 'high' });
    await ground.raise({ severity: 'critical' });
    await ground.app.settle();
    await rules({ criticalBreaksQuietHours: false });
    await ground.raise({ severity: 'critical' });
    await ground.app.settle();
    await rules({ quietHours: null, severities: ['low'] });
    await ground.raise({ severity: 'critical' });
    await ground.raise({ severity: 'low' });
    await ground.app.settle();
    expect((await ground.log()).map(({ status, error }) => error ?? status).toSorted()).to.deep.equal([
      'The person does not want alerts of this severity.',
      'The person has quiet hours.',
      'The person has quiet hours.',
      'sent',
      'sent',
    ]);
    await rules({ severities: null });
  });
});
