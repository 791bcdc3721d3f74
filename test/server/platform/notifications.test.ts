import { expect } from 'chai';
import { DatabaseNotifications } from '../../../src/platform/db/notifications.ts';
import { eventually } from '../../support/eventually.ts';
import { quietLog } from '../../support/quiet-log.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { testClock } from '../../support/test-clock.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

describe('notifications of the database', function () {
  this.timeout(120_000);
  let database: TestDatabase;
  let proxy: TcpProxy;
  let notifications: DatabaseNotifications;
  let heard: string[];
  let returns: number;
  let heardElsewhere: string[];
  let otherReturns: number;

  before(async () => {
    database = await createTestDatabase();
    const { hostname, port } = new URL(database.appUrl);
    proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  });
  after(async () => {
    await proxy?.cut();
    await database?.drop();
  });
  beforeEach(async () => {
    heard = [];
    returns = 0;
    heardElsewhere = [];
    otherReturns = 0;
    const url = new URL(database.appUrl);
    url.hostname = '127.0.0.1';
    url.port = String(proxy.port);
    notifications = new DatabaseNotifications({ url: url.href, log: quietLog });
    notifications.listen({
      channel: 'test_channel',
      onNotifications: (payloads) => void heard.push(...payloads),
      onReturn: () => void (returns += 1),
    });
    notifications.listen({
      channel: 'Other channel',
      onNotifications: (payloads) => void heardElsewhere.push(...payloads),
      onReturn: () => void (otherReturns += 1),
    });
    await notifications.start();
  });
  afterEach(async () => notifications.close());

  const announce = (payload: string, channel = 'test_channel') =>
    asOwner(database.ownerUrl, 'select pg_notify($1, $2)', [channel, payload]);
  const comes = (payload: string) =>
    eventually(
      () => heard,
      (all) => all.includes(payload),
    );

  it('come from other connections, in their order', async () => {
    expect(notifications.isInTouch).to.equal(true);
    for (const payload of ['one', 'two', 'three']) await announce(payload);
    await comes('three');
    expect(heard).to.deep.equal(['one', 'two', 'three']);
  });

  it('of several channels come over one connection, each to its own listener, also when it is back', async () => {
    const name = 'muster-notifications';
    const connections = () =>
      asOwner<{ pid: number }>(
        database.ownerUrl,
        'select pid from pg_stat_activity where datname = current_database() and application_name = $1',
        [name],
      );
    expect(await connections()).to.have.length(1);
    await announce('to the other', 'Other channel');
    await announce('to the first');
    await comes('to the first');
    expect([heard, heardElsewhere]).to.deep.equal([['to the first'], ['to the other']]);

    await asOwner(
      database.ownerUrl,
      'select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and datname = current_database()',
      [name],
    );
    await eventually(
      () => [returns, otherReturns],
      (counts) => counts.every((count) => count === 1),
    );
    await announce('again', 'Other channel');
    await eventually(
      () => heardElsewhere,
      (all) => all.includes('again'),
    );
    expect(() => notifications.listen({ channel: 'late', onNotifications() {}, onReturn() {} })).to.throw(
      'late is added after',
    );
  });

  it('cannot be relied on while the connection is broken; then it is back, and says so', async () => {
    await proxy.cut();
    await eventually(
      () => notifications.isInTouch,
      (isInTouch) => !isInTouch,
    );
    expect(returns).to.equal(0);
    await proxy.mend();
    await eventually(
      () => returns,
      (count) => count === 1,
    );
    expect(notifications.isInTouch).to.equal(true);
    await announce('again');
    await comes('again');
  });

  it('cannot be relied on either if the connection is silent and looks open', async () => {
    proxy.freeze();
    // A second until the next probe, and three in which it is not answered.
    await testClock.advance(4000);
    expect(notifications.isInTouch).to.equal(false);
    await eventually(
      () => returns,
      (count) => count === 1,
    );
    await announce('after silence');
    await comes('after silence');
  });
});
