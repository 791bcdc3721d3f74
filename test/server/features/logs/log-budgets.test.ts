import { expect } from 'chai';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const DAY_ENTRIES = 100_000;

describe('the budget of stored logs', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  before(async () => {
    app = await sharedTestApp();
  });
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });

  const sql = <Row extends object = object>(text: string, values: unknown[]) =>
    asOwner<Row>(app.database.ownerUrl, text, values);
  const used = (days: number, entries: number, bytes = 0, { deviceId } = device) =>
    sql(
      `insert into stored_log_days (device_id, org_id, day, entries, bytes)
       values ($1, $2, (now() at time zone 'utc')::date - $3::int, $4, $5)`,
      [deviceId, tenant.orgId, days, entries, bytes],
    );
  let n = 0;
  const events = (count: number, { deviceId, token } = device) =>
    app.call('PUT', `/agents/${deviceId}/eventlogs`, {
      token,
      body: {
        events: Array.from({ length: count }, () => ({
          timestamp: new Date().toISOString(),
          level: 'error',
          category: 'system',
          source: 'kernel',
          eventId: `e${(n += 1)}`,
          message: 'x'.repeat(1000),
        })),
      },
    });
  const lines = ({ deviceId, token } = device) =>
    app.call('POST', `/agents/${deviceId}/logs`, {
      token,
      body: {
        logs: [
          { timestamp: new Date().toISOString(), level: 'info', component: 'hub', message: 'connected' },
        ],
      },
    });
  const alerts = () =>
    sql<{ device_id: string | null; count: number }>(
      `select device_id, count from alerts where org_id = $1 and kind = 'log_budget_spent'`,
      [tenant.orgId],
    );

  it('counts events and diagnostic lines by the day, and what is known already once', async () => {
    const answer = await events(3);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
    n -= 3;
    expect((await events(3)).body.count).to.equal(0);
    expect((await lines()).status).to.equal(201);
    const [row] = await sql<{ entries: string; bytes: string }>(
      'select entries, bytes from stored_log_days where device_id = $1',
      [device.deviceId],
    );
    expect(Number(row?.entries)).to.equal(4);
    expect(Number(row?.bytes)).to.be.within(3000, 3100);
  });

  it('refuses a device until the day ends, raises one alert, and leaves the other devices alone', async () => {
    await used(0, DAY_ENTRIES - 2);
    expect((await events(2)).status, 'the last batch').to.equal(200);
    for (const refused of [await events(1), await lines()]) {
      expect([refused.status, refused.body.code]).to.deep.equal([429, 'RATE_LIMITED']);
      const seconds = Number(refused.headers.get('retry-after'));
      expect(seconds).to.be.within(1, 86_400);
      const end = new Date(Date.now() + seconds * 1000);
      expect([end.getUTCHours() * 60 + end.getUTCMinutes()].map((minute) => minute % 1440)).to.satisfy(
        ([minute]: number[]) => minute! <= 1 || minute! >= 1438,
      );
    }
    expect(await alerts()).to.deep.equal([{ device_id: device.deviceId, count: 1 }]);
    const other = await buildDevice(app, tenant.orgId);
    expect((await events(1, other)).status).to.equal(200);
  });

  it('refuses by bytes, and by what is kept in total', async () => {
    await used(0, 1, 100 * 1024 ** 2);
    expect((await events(1)).status).to.equal(429);
    const other = await buildDevice(app, tenant.orgId);
    await used(5, 2_000_000, 0, other);
    expect((await lines(other)).status).to.equal(429);
  });

  it('is of an organization too, whose other organizations go on', async () => {
    const [second, stranger] = [await buildDevice(app, tenant.orgId), await buildTenant(app)];
    await used(0, 5_000_000, 0, second);
    expect((await events(1)).status).to.equal(429);
    expect((await events(1, await buildDevice(app, stranger.orgId))).status).to.equal(200);
  });
});
