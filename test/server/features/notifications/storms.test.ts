import { expect } from 'chai';
import { notificationGround } from '../../../support/notifications/notification-ground.ts';

const STORM = 2000;

describe('a storm of alerts', () => {
  let ground: Awaited<ReturnType<typeof notificationGround>>;

  before(async () => {
    ground = await notificationGround();
  });
  after(async () => ground.close());
  afterEach(() => ground.clear());

  /** Alerts of made up devices, in one transaction. */
  const storm = (from: number, to: number) =>
    ground.sql(
      `insert into alerts (id, org_id, kind, severity, title, message)
      select new_row_id(), $1, 'storm_' || n, case when n = 77 then 'critical' else 'low' end, 'DESK-' || n || ' is offline', 'Gone.'
      from generate_series($2::int, $3::int) n`,
      [ground.tenant.orgId, from, to],
    );

  it('over a site is one message to each, with its count and the first names', async () => {
    const [chat, page] = [await ground.channel('slack', 'chat'), await ground.channel('pagerduty', 'page')];
    await ground.policy({
      groupBy: 'site',
      groupSeconds: 30,
      steps: [{ afterMinutes: 0, channelIds: [chat.id, page.id], userIds: [ground.tenant.admin.id] }],
    });
    await storm(1, STORM);
    await ground.app.settle();
    expect(await ground.log()).to.deep.equal([]);
    await ground.pass(1);
    const log = await ground.log();
    expect(log.map(({ reason, status, alertCount }) => [reason, status, alertCount])).to.deep.equal(
      Array.from({ length: 3 }, () => ['raised', 'sent', STORM]),
    );
    const [{ text } = { text: '' }] = ground.receivers.at('/slack/chat');
    expect(text).to.include('2000 alerts: DESK-77 is offline and others').and.include('and 1995 more');
    expect(ground.receivers.at('/pagerduty/page')).to.have.length(1);

    await ground.sql(`update alerts set status = 'resolved', resolved_at = now(), resolution = 'Back.'`);
    await ground.app.settle();
    expect((await ground.log()).slice(3).map(({ reason, alertCount }) => [reason, alertCount])).to.deep.equal(
      Array.from({ length: 3 }, () => ['resolved', STORM]),
    );
    expect(ground.receivers.got).to.have.length(4);
  });

  it('that goes on is told at most once a minute, with what is new', async () => {
    const { id } = await ground.channel('slack', 'going');
    await ground.policy({ groupBy: 'site', groupSeconds: 0, steps: [{ afterMinutes: 0, channelIds: [id] }] });
    await storm(100, 100);
    await ground.app.settle();
    for (let n = 0; n < 5; n++) {
      await storm(200 + n, 200 + n);
      await ground.app.settle();
    }
    expect((await ground.log()).map(({ alertCount }) => alertCount)).to.deep.equal([1]);
    await ground.pass(1);
    expect((await ground.log()).map(({ alertCount }) => alertCount)).to.deep.equal([1, 5]);
    await ground.pass(1);
    expect(await ground.log()).to.have.length(2);
  });

  it('begins its steps anew when something new comes after somebody has acknowledged it', async () => {
    const [first, second] = [await ground.channel('slack'), await ground.channel('slack')];
    await ground.policy({
      groupBy: 'site',
      groupSeconds: 0,
      steps: [
        { afterMinutes: 0, channelIds: [first.id] },
        { afterMinutes: 5, channelIds: [second.id] },
      ],
    });
    const [alertId] = await ground.raise({});
    await ground.app.settle();
    await ground.call('POST', `/alerts/${alertId}/acknowledge`, {});
    await ground.app.settle();
    await ground.pass(30);
    expect(await ground.log()).to.have.length(1);
    await ground.raise({});
    await ground.app.settle();
    await ground.pass(6);
    expect((await ground.log()).map(({ reason, channelId }) => [reason, channelId])).to.deep.equal([
      ['raised', first.id],
      ['raised', first.id],
      ['escalated', second.id],
    ]);
  });

  it('of kinds is a conversation for each kind, and of devices one for each device', async () => {
    const { id } = await ground.channel('slack');
    const { id: policyId } = await ground.policy({
      groupBy: 'rule',
      groupSeconds: 0,
      steps: [{ afterMinutes: 0, channelIds: [id] }],
    });
    await storm(1, 3);
    await ground.app.settle();
    expect((await ground.log()).map(({ alertCount }) => alertCount)).to.deep.equal([1, 1, 1]);
    await ground.clear();
    await ground.call('DELETE', `/notification-policies/${policyId}`);
    await ground.policy({
      groupBy: 'device',
      groupSeconds: 0,
      steps: [{ afterMinutes: 0, channelIds: [id] }],
    });
    await storm(1, 3);
    await ground.app.settle();
    expect((await ground.log()).map(({ alertCount }) => alertCount)).to.deep.equal([3]);
  });
});
