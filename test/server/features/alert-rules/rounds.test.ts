import { expect } from 'chai';
import { raiseOffline } from '../../../../src/features/alert-rules/offline.queries.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice, graceOver } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { alertGround } from '../../../support/alert-rule-ground.ts';

describe('alert rounds', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let ground: ReturnType<typeof alertGround>;

  beforeEach(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    ground = alertGround(app);
  });
  afterEach(async () => app.close());

  const device = async () => buildDevice(app, tenant.orgId);
  const alerts = () =>
    ground.sql<{ device_id: string; status: string; count: number }>(`select * from alerts`);
  const ROUND_AGO = `through = now() - interval '30 seconds'`;
  /** Longer ago than devices are given to come back. */
  const WATCHED_LONG = `watched_since = now() - interval '30 minutes'`;

  it('run on one server at a time, and raise each alert once', async () => {
    const devices = await Promise.all(Array.from({ length: 5 }, device));
    for (const one of devices) await ground.gone(one, 31);
    await ground.sql(`update alert_rounds set ${ROUND_AGO}, ${WATCHED_LONG}, whole_at = '-infinity'`);
    const servers = Array.from({ length: 6 }, () =>
      ground.newRounds({ everyMs: 30_000, wholeEveryMs: 300_000 }),
    );
    const done = (await Promise.all(servers.map(async (one) => one.round()))).filter(
      (one) => one !== undefined,
    );
    expect(done).to.deep.equal([{ isWhole: true, raised: 5, resolved: 0 }]);
    // The next one is due half a minute later, on whichever server.
    expect(await servers[5]!.round()).to.equal(undefined);
    await ground.sql(`update alert_rounds set ${ROUND_AGO}`);
    expect(await servers[3]!.round()).to.deep.equal({ isWhole: false, raised: 0, resolved: 0 });
    expect(await alerts()).to.have.length(5);
  });

  it('look up by index what each device has had raised, though no statistics know of the alerts', async () => {
    for (const isWhole of [true, false]) {
      const plan = await ground.sql<{ 'QUERY PLAN': string }>(`explain (costs off) ${raiseOffline(isWhole)}`);
      const scans = plan.map((row) => row['QUERY PLAN']).filter((line) => / on alerts a/.test(line));
      expect(scans.filter((line) => line.includes('Scan'))).to.have.length.above(2);
      for (const scan of scans) expect(scan).not.to.match(/Seq Scan|alerts_of_rule/);
    }
  });

  it('cannot raise an alert twice even without the lock: a unique index prevents it', async () => {
    const one = await device();
    await ground.gone(one, 31);
    await ground.whole();
    const [{ kind, subject } = { kind: '', subject: '' }] = await ground.sql<{
      kind: string;
      subject: string;
    }>(`select kind, subject_id as subject from alerts`);
    const second = await ground
      .sql(
        `insert into alerts (id, org_id, device_id, kind, severity, title, message)
        values (gen_random_uuid(), ?, ?, ?, 'low', 't', 'm')`,
        [tenant.orgId, subject, kind],
      )
      .then(
        () => 'inserted',
        (error: { constraint?: string }) => error.constraint,
      );
    expect(second).to.equal('alerts_standing');
  });

  it('leave nothing behind when they fail, and the next round finds the same', async () => {
    const one = await device();
    await ground.gone(one, 31);
    await ground.sql(`update alert_rounds set ${ROUND_AGO}, ${WATCHED_LONG}, whole_at = '-infinity'`);
    // The last statement of a round fails: its bookkeeping.
    await asOwner(
      app.database.ownerUrl,
      `alter table alert_rounds add constraint broken check (whole_at = '-infinity') not valid`,
    );
    const failed = await ground
      .newRounds()
      .round()
      .then(
        () => 'done',
        (error: Error) => error.message,
      );
    expect(failed).to.include('broken');
    expect(await alerts()).to.deep.equal([]);
    await asOwner(app.database.ownerUrl, `alter table alert_rounds drop constraint broken`);
    expect(await ground.newRounds().round()).to.deep.include({ raised: 1 });
    expect(await ground.newRounds().round()).to.deep.include({ raised: 0 });
  });

  it('find what passed its threshold since the last round, and in a full round what was written late', async () => {
    const [one, late] = [await device(), await device()];
    await ground.gone(one, 30.2);
    await ground.short();
    expect((await alerts()).map(({ device_id: id }) => id)).to.deep.equal([one.deviceId]);
    // Its absence was written an hour late: too late for a short round.
    await ground.gone(late, 90);
    await ground.short();
    expect(await alerts()).to.have.length(1);
    await ground.whole();
    expect(await alerts()).to.have.length(2);
  });

  it('give devices time to return after an outage of the server, then raise alerts for the missing ones', async () => {
    const devices = await Promise.all(Array.from({ length: 3 }, device));
    for (const one of devices) await ground.gone(one, 120);
    await ground.sql(`update alert_rounds set through = now() - interval '2 hours'`);
    const rounds = ground.newRounds();
    expect(await rounds.round()).to.deep.equal({ isWhole: true, raised: 0, resolved: 0 });
    await ground.back(devices[0]!, 3);
    await ground.sql(
      `update alert_rounds set watched_since = now() - interval '9 minutes', whole_at = now() - interval '1 minute'`,
    );
    expect(await rounds.round()).to.deep.include({ raised: 0 });
    // Its time is over: at once everything is looked at.
    await ground.sql(
      `update alert_rounds set watched_since = now() - interval '10 minutes 1 second',
        whole_at = now() - interval '1 minute'`,
    );
    expect(await rounds.round()).to.deep.equal({ isWhole: true, raised: 2, resolved: 0 });
    expect(await rounds.round()).to.deep.equal({ isWhole: false, raised: 0, resolved: 0 });
  });

  it('wait after a start of the server, but not forever if it restarts repeatedly', async () => {
    const one = await device();
    await ground.gone(one, 120);
    await ground.sql(`update alert_rounds set ${ROUND_AGO}, watched_since = '-infinity'`);
    expect(await ground.newRounds().round()).to.deep.include({ raised: 0 });
    const [{ since } = { since: null }] = await ground.sql<{ since: unknown }>(
      `select watched_since as since from alert_rounds`,
    );
    expect(since).to.be.instanceOf(Date);
    await ground.sql(
      `update alert_rounds set ${ROUND_AGO}, watched_since = now() - interval '11 minutes', whole_at = '-infinity'`,
    );
    expect(await ground.newRounds().round()).to.deep.include({ raised: 1 });
  });

  it('give the devices of a lost node time to reconnect, even with a short threshold', async () => {
    await app.call('PATCH', `/alert-rules/${await ground.ruleOf(tenant.orgId, 'device_offline')}`, {
      token: tenant.admin.token,
      body: { condition: { kind: 'offline', forMinutes: 1 } },
    });
    const [lost, closed] = [await device(), await device()];
    await ground.gone(lost, 5, 'node_lost');
    await ground.gone(closed, 5, 'socket_closed');
    await ground.whole();
    expect((await alerts()).map(({ device_id: id }) => id)).to.deep.equal([closed.deviceId]);
    await ground.gone(lost, 10.1, 'node_lost');
    await ground.whole();
    expect(await alerts()).to.have.length(2);
  });

  it('raise the alerts of other organizations while one fails, and retry that one until it works', async () => {
    const stranger = await buildTenant(app);
    const [mine, theirs] = [await device(), await buildDevice(app, stranger.orgId)];
    for (const one of [mine, theirs]) await ground.gone(one, 31);
    await ground.sql(`update alert_rounds set ${ROUND_AGO}, ${WATCHED_LONG}`);
    await asOwner(
      app.database.ownerUrl,
      `alter table alerts add constraint broken check (org_id <> '${tenant.orgId}') not valid`,
    );
    const rounds = ground.newRounds({ everyMs: 0, wholeEveryMs: 3_600_000, retryMs: 1 });
    const raisedFor = async () => (await alerts()).map(({ device_id: id }) => id);
    expect(await rounds.round()).to.deep.include({ raised: 1 });
    expect(await raisedFor()).to.deep.equal([theirs.deviceId]);
    expect(rounds.failing()).to.equal(1);
    // The next rounds leave the failing organization out until its retry is due, and then evaluate it alone.
    await asOwner(app.database.ownerUrl, `alter table alerts drop constraint broken`);
    await eventually(
      async () => (await rounds.round(), rounds.failing()),
      (failing) => failing === 0,
    );
    expect(await raisedFor()).to.have.members([theirs.deviceId, mine.deviceId]);
  });

  it('of a running server notice that a device disconnects and returns', async () => {
    const one = await device();
    const told = async (): Promise<string> => {
      const { body } = await app.call('GET', `/alerts?deviceId=${one.deviceId}`, {
        token: tenant.admin.token,
      });
      return body.data
        .map(({ status, count }: { status: string; count: number }) => `${status} ${count}`)
        .join();
    };
    /** A round of the running server, of everything. */
    const round = async () => {
      await ground.sql(
        `update alert_rounds set ${ROUND_AGO}, ${WATCHED_LONG}, whole_at = now() - interval '1 hour'`,
      );
      await app.settle();
    };
    const come = async () => {
      const agent = await connectDevice(app, one.token);
      await agent.heartbeat();
      await app.settle();
      return agent;
    };
    const go = async (agent: Awaited<ReturnType<typeof come>>) => {
      agent.close();
      await graceOver(app, one.deviceId);
    };
    /** So that nobody waits for half an hour. */
    const pass = (minutes: number) =>
      ground.sql(`update device_presence set since = since - ? * interval '1 minute' where device_id = ?`, [
        minutes,
        one.deviceId,
      ]);
    let agent = await come();
    expect(await told()).to.equal('');
    await go(agent);
    await pass(29);
    await round();
    expect(await told()).to.equal('');
    await pass(2);
    await round();
    expect(await told()).to.equal('active 1');
    agent = await come();
    await round();
    expect(await told()).to.equal('active 1');
    await pass(2.1);
    await round();
    expect(await told()).to.equal('resolved 1');
    const samples = [3, 2, 1].map((minutes) => ({
      at: new Date(Date.now() - minutes * 60_000).toISOString(),
      cpuPercent: 1,
      ramPercent: 2,
      volumes: [{ volume: '/', usedBytes: 975_000_000, totalBytes: 1_000_000_000 }],
    }));
    const stored = agent.send('metrics:samples', { samples });
    await agent.heartbeat();
    await app.settle();
    await stored;
    // The round follows what is written.
    await round();
    expect(await told()).to.equal('active 1,resolved 1');
    agent.close();
  });
});
