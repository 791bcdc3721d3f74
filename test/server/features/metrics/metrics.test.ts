import { expect } from 'chai';
import { importHistory } from '../../../../src/features/metrics/index.ts';
import { packBlock } from '../../../../src/features/metrics/block.ts';
import { endMetrics, packSamples, sumUpDays } from '../../../../src/features/metrics/metric.job.ts';
import {
  buildDevice,
  buildOrganization,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice, graceOver } from '../../../support/fake-device.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const GIB = 2 ** 30;

interface Answer {
  step: number;
  series: { metric: string; labels?: { volume?: string }; points: [number, number, number, number][] }[];
  gaps: { from: string; to: string; reason: string | null }[];
}

describe('the metric history', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agent: FakeDevice;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    agent = await connectDevice(app, device.token);
  });
  afterEach(() => agent.close());

  const owner = <Row extends object>(sql: string, values?: unknown[]) =>
    asOwner<Row & Record<string, unknown>>(app.database.ownerUrl, sql, values);
  /** Sends samples as they were taken so many ms ago. */
  const send = async (samples: unknown[], by = agent) => {
    const answer = by.send('metrics:samples', { samples });
    // The message has to arrive before what waits is written.
    await by.heartbeat();
    await app.settle();
    return answer;
  };
  const at = (ago: number) => new Date(Date.now() - ago).toISOString();
  const sample = (ago: number, more: object = {}) => ({ at: at(ago), cpuPercent: 10, ...more });
  const read = async (query = '', { id = device.deviceId, token = tenant.admin.token } = {}) => {
    const { status, body } = await app.call('GET', `/devices/${id}/metrics${query}`, { token });
    return { status, ...(body as Answer), body };
  };
  const pointsOf = ({ series }: Answer, metric: string) =>
    series.find((one) => one.metric === metric)?.points ?? [];
  const db = () => app.server.database.jobPool;
  /** Makes samples that have arrived count as arrived two hours earlier, and packs them. */
  const pack = async () => {
    await owner(`select add_partitions('metric_samples', now() - interval '3 hours', now())`);
    await owner(
      `update metric_samples set arrived_at = arrived_at - interval '2 hours' where device_id = '${device.deviceId}'`,
    );
    return packSamples(db(), new Date(Math.floor((Date.now() - 5 * MINUTE) / HOUR) * HOUR));
  };
  /** Puts everything that is packed some days back. */
  const setBack = async (days: number) => {
    await owner(
      `select add_partitions('metric_minutes', now() - interval '${days + 2} days', now() - interval '${days} days')`,
    );
    await owner(
      `update metric_minutes set begins_at = begins_at - interval '${days} days' where device_id = '${device.deviceId}'`,
    );
    await owner(
      `update devices set enrolled_at = enrolled_at - interval '${days + 30} days' where id = '${device.deviceId}'`,
    );
  };

  it('shows a sample as soon as it is acknowledged, with each of its figures', async () => {
    const answer = await send([
      sample(0, {
        ramPercent: 48.1,
        load: 0.31,
        uptimeSeconds: 864_000,
        networkSentPerSecond: 4096,
        volumes: [{ volume: '/', usedBytes: 71 * GIB, totalBytes: 100 * GIB }],
        processes: [{ process: 'postgres', cpuPercent: 11.2, ramPercent: 20.5 }],
      }),
    ]);
    expect(answer).to.deep.equal({ ok: true });
    const history = await read();
    expect(history.status).to.equal(200);
    expect(history.step).to.equal(300);
    const figures = Object.fromEntries(
      history.series.map(({ metric, labels, points }) => [
        [metric, ...Object.values(labels ?? {})].join(' '),
        points.map(([, , average]) => average),
      ]),
    );
    expect(figures).to.deep.equal({
      cpuPercent: [10],
      ramPercent: [48.1],
      load: [0.31],
      uptimeSeconds: [864_000],
      networkSentPerSecond: [4096],
      'volumeUsedBytes /': [71 * GIB],
      'volumeTotalBytes /': [100 * GIB],
      'processCpuPercent postgres': [11.2],
      'processRamPercent postgres': [20.5],
    });
  });

  it('has the finest resolution with no more points than asked for, and only the wanted metrics', async () => {
    await send([sample(2 * MINUTE, { cpuPercent: 20 }), sample(0, { cpuPercent: 40, ramPercent: 1 })]);
    const fine = await read(`?metrics=cpuPercent&from=${at(30 * MINUTE)}`);
    expect(fine.step).to.equal(60);
    expect(fine.series.map(({ metric }) => metric)).to.deep.equal(['cpuPercent']);
    expect(pointsOf(fine, 'cpuPercent')).to.have.length(2);
    const coarse = await read(`?metrics=cpuPercent&points=10`);
    expect(coarse.step).to.equal(3 * 3600);
    const values = pointsOf(coarse, 'cpuPercent').map(([, ...rest]) => rest);
    expect(values.flat()).to.include.members([20, 40]);
    for (const [query, field] of [
      ['?points=1', 'query.points'],
      ['?metrics=nothing', 'query.metrics'],
      [`?from=${at(0)}&to=${at(HOUR)}`, 'query.from'],
      ['?from=1990-01-01&points=2', 'query.points'],
    ] as const) {
      const { status, body } = await read(query);
      expect([status, JSON.stringify(body.details)], query).to.satisfy(
        ([code, details]: [number, string]) => code === 400 && details.includes(`"path":"${field}`),
      );
    }
  });

  it('is hidden from people of another tenant', async () => {
    await send([sample(0)]);
    const other = await buildTenant(app);
    expect((await read('', { token: other.admin.token })).status).to.equal(404);
    const list = await app.call('GET', '/metrics/now', { token: other.admin.token });
    expect(list.body).to.deep.equal({ data: [], isComplete: true });
    const foreign = await app.call('GET', `/metrics/now?orgId=${tenant.orgId}`, { token: other.admin.token });
    expect(foreign.status).to.equal(403);
    const retention = `/orgs/organizations/${tenant.orgId}/metric-retention`;
    expect((await app.call('GET', retention, { token: other.admin.token })).status).to.be.oneOf([403, 404]);
  });

  it('takes what was kept through an outage, and shows the outage as no gap', async () => {
    const hours = [2, 1, 0];
    for (const ago of hours) {
      const hour = Array.from({ length: 60 }, (_, minute) => sample(ago * HOUR + minute * MINUTE));
      expect(await send(hour)).to.deep.equal({ ok: true });
    }
    await owner(`update devices set enrolled_at = now() - interval '1 day' where id = '${device.deviceId}'`);
    const history = await read(`?from=${at(2.5 * HOUR)}`);
    expect(pointsOf(history, 'cpuPercent').length).to.be.within(149, 151);
    expect(history.gaps).to.deep.equal([]);
  });

  it('takes samples that are sent twice once, in whatever order they come', async () => {
    const twice = [sample(5 * MINUTE, { cpuPercent: 30 }), sample(3 * MINUTE, { cpuPercent: 50 })];
    await send(twice);
    await send(twice.toReversed());
    const before = await read(`?from=${at(HOUR)}`);
    expect(pointsOf(before, 'cpuPercent').map(([, , average]) => average)).to.deep.equal([30, 50]);
    await pack();
    const after = await read(`?from=${at(HOUR)}`);
    expect(pointsOf(after, 'cpuPercent')).to.deep.equal(pointsOf(before, 'cpuPercent'));
  });

  it('names the reason of a gap, which is why the device was not connected', async () => {
    await send([sample(6 * HOUR), sample(5 * HOUR), sample(HOUR), sample(0)]);
    await owner(`update devices set enrolled_at = now() - interval '1 day' where id = '${device.deviceId}'`);
    await owner(
      `select add_partitions('presence_changes', now() - interval '1 day', now());
      insert into presence_changes (device_id, org_id, at, state, reason) values
        ('${device.deviceId}', '${tenant.orgId}', now() - interval '290 minutes', 'disconnected', 'heartbeat_missed'),
        ('${device.deviceId}', '${tenant.orgId}', now() - interval '62 minutes', 'connected', 'connected')`,
    );
    const { gaps } = await read(`?from=${at(6 * HOUR)}`);
    expect(gaps.map(({ reason }) => reason)).to.deep.equal([null, 'heartbeat_missed', 'connected']);
    expect(Date.parse(gaps[1]!.to) - Date.parse(gaps[1]!.from)).to.be.closeTo(4 * HOUR, 2 * MINUTE);
  });

  it('remembers when a device went away and why', async () => {
    await agent.heartbeat();
    await app.settle();
    agent.close();
    await graceOver(app, device.deviceId);
    await app.settle();
    const changes = await owner<{ state: string; reason: string }>(
      `select state, reason from presence_changes where device_id = '${device.deviceId}' order by at`,
    );
    expect(changes.at(-1)).to.deep.equal({ state: 'disconnected', reason: 'socket_closed' });
  });

  describe('of a bad device', () => {
    it('keeps the good samples of a message', async () => {
      const answer = await send([null, 'x', { at: 'never' }, sample(-HOUR), sample(30 * HOUR), sample(0)]);
      expect(answer).to.deep.equal({ ok: true });
      expect(pointsOf(await read(), 'cpuPercent')).to.have.length(1);
    });

    it('acknowledges what it will never keep, so that it is not sent again', async () => {
      expect(await send([sample(-HOUR)])).to.deep.equal({ ok: true });
      expect((await read()).series).to.deep.equal([]);
    });

    it('refuses a message without samples or with too many', async () => {
      for (const samples of [[], Array.from({ length: 61 }, () => sample(0)), 'none']) {
        expect(await send(samples as unknown[])).to.deep.include({ ok: false });
      }
    });

    it('refuses more messages than an agent sends after a day of outage', async () => {
      const answers = await Promise.all(
        Array.from({ length: 45 }, () => agent.send('metrics:samples', { samples: [sample(0)] })).concat(
          agent.heartbeat().then(() => app.settle()),
        ),
      );
      const refused = answers.filter((one) => (one as { ok?: boolean } | undefined)?.ok === false);
      expect(refused).to.have.length(5);
      expect(refused[0]).to.deep.include({
        error: { code: 'DEVICE_BUSY', message: 'Too many messages at once. Send it again.' },
      });
    });

    it('does not keep the samples of the other devices from being stored', async () => {
      const other = await buildDevice(app, tenant.orgId);
      const otherAgent = await connectDevice(app, other.token);
      const volumes = Array.from({ length: 5000 }, (_, n) => ({
        volume: `/${n}`,
        usedBytes: 1,
        totalBytes: 2,
      }));
      const bad = agent.send('metrics:samples', { samples: [sample(0, { volumes, cpuPercent: 'NaN' })] });
      expect(await send([sample(0)], otherAgent)).to.deep.equal({ ok: true });
      expect(await bad).to.deep.equal({ ok: true });
      expect(pointsOf(await read('', { id: other.deviceId }), 'cpuPercent')).to.have.length(1);
      otherAgent.close();
    });
  });

  it('is not stored for a device that waits for approval', async () => {
    const known = await buildDevice(app, tenant.orgId, { machineId: 'machine-1' });
    const knownAgent = await connectDevice(app, known.token);
    await knownAgent.heartbeat();
    await app.settle();
    const waiting = await buildDevice(app, tenant.orgId, { machineId: 'machine-1' });
    const waitingAgent = await connectDevice(app, waiting.token);
    expect((await waitingAgent.heartbeat()).isPending).to.equal(true);
    expect(await send([sample(0)], waitingAgent)).to.deep.include({ ok: false });
    knownAgent.close();
    waitingAgent.close();
  });

  it('is packed into one row for each hour, and reads the same as before', async () => {
    const samples = Array.from({ length: 60 }, (_, n) => sample((59 - n) * MINUTE, { cpuPercent: n }));
    await send(samples.slice(0, 30));
    await send(samples.slice(30));
    const query = `?from=${at(2 * HOUR)}&to=${at(0)}`;
    const before = await read(query);
    await pack();
    const counts = await owner<{ samples: number; minutes: number }>(
      `select (select count(*)::int from metric_samples where device_id = '${device.deviceId}') as samples,
        (select count(*)::int from metric_minutes where device_id = '${device.deviceId}') as minutes`,
    );
    expect(counts[0]?.samples).to.equal(0);
    expect(counts[0]?.minutes).to.be.within(1, 2);
    expect((await read(query)).body).to.deep.equal(before.body);
  });

  it('adds what comes late to a row that is packed', async () => {
    await send([sample(10 * MINUTE, { cpuPercent: 1 })]);
    await pack();
    await send([sample(9 * MINUTE, { cpuPercent: 2 })]);
    await pack();
    const points = pointsOf(await read(`?from=${at(HOUR)}`), 'cpuPercent');
    expect(points.map(([, , average]) => average)).to.deep.equal([1, 2]);
  });

  it('is summed up by day: minimum, average and maximum of each quarter of an hour and each hour', async () => {
    await send([
      sample(3 * MINUTE, {
        cpuPercent: 10,
        volumes: [{ volume: '/', usedBytes: 5 * GIB, totalBytes: 9 * GIB }],
      }),
      sample(2 * MINUTE, { cpuPercent: 90 }),
      sample(MINUTE, { cpuPercent: 20 }),
    ]);
    await pack();
    await setBack(20);
    await sumUpDays(db(), new Date(Math.floor(Date.now() / DAY) * DAY - DAY));
    await owner(`delete from metric_minutes where device_id = '${device.deviceId}'`);
    const range = (days: number) => `from=${at((20 + days) * DAY)}&to=${at(19 * DAY)}`;
    const quarters = await read(`?${range(1)}&points=1000`);
    expect(quarters.step).to.equal(900);
    const all = pointsOf(quarters, 'cpuPercent');
    expect(Math.min(...all.map(([, min]) => min))).to.equal(10);
    expect(Math.max(...all.map(([, , , max]) => max))).to.equal(90);
    if (all.length === 1) expect(all[0]?.slice(1)).to.deep.equal([10, 40, 90]);
    expect(quarters.series.find(({ metric }) => metric === 'volumeUsedBytes')?.points[0]?.[2]).to.equal(
      5 * GIB,
    );
    const hours = await read(`?${range(20)}&points=1000`);
    expect(hours.step).to.equal(3600);
    expect(pointsOf(hours, 'cpuPercent').length).to.be.within(1, 2);
  });

  it('goes with a device to another organization, and the old one does not see it any more', async () => {
    await send([sample(10 * MINUTE)]);
    await pack();
    await send([sample(0)]);
    const orgId = await buildOrganization(app, tenant.partnerId);
    const siteId = await buildSite(app, orgId);
    const moved = await app.call('POST', `/devices/${device.deviceId}/move`, {
      token: tenant.admin.token,
      body: { orgId, siteId },
    });
    expect(moved.status).to.equal(200);
    const rows = await owner<{ org: string }>(
      `select org_id as org from metric_samples where device_id = '${device.deviceId}'
      union select org_id from metric_minutes where device_id = '${device.deviceId}'`,
    );
    expect(rows).to.deep.equal([{ org: orgId }]);
    expect(pointsOf(await read(`?from=${at(HOUR)}`), 'cpuPercent')).to.have.length(2);
  });

  describe('is kept', () => {
    const retention = () => `/orgs/organizations/${tenant.orgId}/metric-retention`;
    const change = (body: unknown) => app.call('PUT', retention(), { token: tenant.admin.token, body });
    const daysLeft = async () =>
      (
        await owner<{ days: number }>(
          `select round(extract(epoch from now() - begins_at) / 86400)::int as days from metric_minutes
          where device_id = '${device.deviceId}' order by 1`,
        )
      ).map(({ days }) => days);
    const fill = async () => {
      await owner(`select add_partitions('metric_minutes', now() - interval '20 days', now())`);
      await owner(
        `insert into metric_minutes (device_id, org_id, begins_at, block)
        select '${device.deviceId}', '${tenant.orgId}', now() - make_interval(days => n), '\\x0100'
        from unnest(array[1, 5, 10, 18]) n`,
      );
    };

    it('as long as the server keeps it, by dropping whole partitions', async () => {
      await fill();
      const { dropped } = await endMetrics({ db: db(), log: quietLog }, Date.now());
      expect(dropped).to.be.greaterThan(0);
      expect(await daysLeft()).to.deep.equal([1, 5, 10]);
    });

    it('shorter if the organization chooses so', async () => {
      expect((await app.call('GET', retention(), { token: tenant.admin.token })).body).to.deep.equal({
        minuteDays: 14,
        quarterDays: 90,
        hourDays: 730,
      });
      const wanted = { minuteDays: 7, quarterDays: 30, hourDays: 365 };
      expect((await change(wanted)).body).to.deep.equal(wanted);
      expect((await change({ ...wanted, minuteDays: 15 })).status).to.equal(400);
      await fill();
      await endMetrics({ db: db(), log: quietLog }, Date.now());
      expect(await daysLeft()).to.deep.equal([1, 5]);
    });

    it('and shown in the finest resolution that the organization still keeps', async () => {
      await send([sample(2 * MINUTE), sample(MINUTE)]);
      await pack();
      await setBack(5);
      // Other tests have summed up later days.
      await owner(`update metric_progress set summed_up_until = '-infinity'`);
      await sumUpDays(db(), new Date(Math.floor(Date.now() / DAY) * DAY - DAY));
      const day = () => read(`?from=${at(5 * DAY + 2 * HOUR)}&to=${at(5 * DAY - 2 * HOUR)}`);
      expect((await day()).step).to.equal(60);
      await change({ minuteDays: 3, quarterDays: 30, hourDays: 365 });
      await endMetrics({ db: db(), log: quietLog }, Date.now());
      const shown = await day();
      expect(shown.step).to.equal(900);
      expect(pointsOf(shown, 'cpuPercent').length).to.be.within(1, 2);
    });
  });

  it('has the past that is imported, in each resolution, and a forecast by it', async () => {
    const now = Date.now();
    const used = (time: number) => Math.round((60 + (20 * (time - now)) / (20 * DAY)) * GIB);
    await importHistory(db(), device.deviceId, {
      from: now - 20 * DAY,
      to: now,
      sampleAt: (time) => ({
        at: new Date(time).toISOString(),
        cpuPercent: 25,
        volumes: [{ volume: '/', usedBytes: used(time), totalBytes: 100 * GIB }],
      }),
    });
    for (const [from, step, count] of [
      [HOUR, 60, 60],
      [DAY, 300, 288],
      [19 * DAY, 3 * 3600, 19 * 8],
    ] as const) {
      const history = await read(`?from=${at(from)}`);
      const points = pointsOf(history, 'cpuPercent');
      expect([history.step, points.every(([, , average]) => average === 25)]).to.deep.equal([step, true]);
      expect(points.length, String(step)).to.be.within(count - 2, count + 1);
    }
    await send([sample(0, { volumes: [{ volume: '/', usedBytes: used(now), totalBytes: 100 * GIB }] })]);
    const list = await app.call('GET', '/metrics/now', { token: tenant.admin.token });
    expect(list.body.data[0].forecast.fullInDays).to.be.within(38, 42);
    // The job that sums up days goes on where the imported ones end.
    expect(await sumUpDays(db(), new Date(Math.floor(now / DAY) * DAY))).to.be.within(1, 3);
    expect(pointsOf(await read(`?from=${at(19 * DAY)}`), 'cpuPercent').length).to.be.within(150, 153);
  });

  describe('now', () => {
    const now = async (query = '') => {
      const { status, body } = await app.call('GET', `/metrics/now${query}`, { token: tenant.admin.token });
      expect(status, JSON.stringify(body)).to.equal(200);
      return body.data as {
        deviceId: string;
        value: number;
        volume?: string;
        forecast?: { fullInDays: number; confidence: number } | null;
      }[];
    };
    const volume = (name: string, percent: number) => ({
      volume: name,
      usedBytes: percent * GIB,
      totalBytes: 100 * GIB,
    });

    it('lists the fullest volumes of all devices, or the figures of another metric, in either order', async () => {
      const other = await buildDevice(app, tenant.orgId);
      const otherAgent = await connectDevice(app, other.token);
      await send([sample(0, { cpuPercent: 5, volumes: [volume('/', 70), volume('/data', 20)] })]);
      await send([sample(0, { cpuPercent: 60, volumes: [volume('C:', 40)] })], otherAgent);
      const disks = await now();
      expect(disks.map(({ volume: name, value }) => [name, value])).to.deep.equal([
        ['/', 70],
        ['C:', 40],
        ['/data', 20],
      ]);
      expect(disks.map(({ forecast }) => forecast)).to.deep.equal([null, null, null]);
      expect((await now('?limit=1&order=asc')).map(({ value }) => value)).to.deep.equal([20]);
      expect((await now('?metric=cpuPercent')).map(({ deviceId, value }) => [deviceId, value])).to.deep.equal(
        [
          [other.deviceId, 60],
          [device.deviceId, 5],
        ],
      );
      const filter = await app.call('POST', '/filters', {
        token: tenant.admin.token,
        body: {
          orgId: tenant.orgId,
          name: 'One',
          conditions: {
            operator: 'AND',
            conditions: [{ field: 'hostname', operator: 'equals', value: 'no such' }],
          },
        },
      });
      expect(filter.status, JSON.stringify(filter.body)).to.equal(201);
      expect(await now(`?filterId=${filter.body.id}`)).to.deep.equal([]);
      const elsewhere = await buildOrganization(app, tenant.partnerId);
      expect(await now(`?orgId=${elsewhere}`)).to.deep.equal([]);
      expect(await now(`?orgId=${tenant.orgId}`)).to.deep.equal(disks);
      otherAgent.close();
    });

    it('passes over a device whose newest samples are damaged', async () => {
      const other = await buildDevice(app, tenant.orgId);
      const figures = { label: '', slots: [1], min: [5], avg: [5], max: [5] };
      const block = packBlock(
        { stepSeconds: 2 ** 45, series: [{ metric: 'cpuPercent', ...figures }] },
        { hasRange: false },
      );
      await owner(
        `insert into metric_samples (device_id, org_id, begins_at, block) values ($1, $2, date_trunc('hour', now()), $3)`,
        [other.deviceId, tenant.orgId, block],
      );
      await send([sample(0, { cpuPercent: 7 })]);
      expect((await now('?metric=cpuPercent')).map(({ value }) => value)).to.deep.equal([7]);
      const { status } = await app.call('GET', `/devices/${other.deviceId}/metrics`, {
        token: tenant.admin.token,
      });
      expect(status).to.equal(200);
    });

    it('says when a volume will be full, if it has grown clearly', async () => {
      await owner(`select add_partitions('metric_hours', now() - interval '12 days', now())`);
      const today = Math.floor(Date.now() / DAY) * DAY;
      for (let day = 10; day >= 1; day -= 1) {
        const slots = Array.from({ length: 24 }, (_, hour) => hour);
        const bytes = (of: (hour: number) => number) => {
          const avg = slots.map((hour) => of(hour) * GIB);
          return { label: '/', slots, min: avg, avg, max: avg };
        };
        const series = [
          { metric: 'volumeUsedBytes' as const, ...bytes((hour) => 70 - 2 * (day - hour / 24)) },
          { metric: 'volumeTotalBytes' as const, ...bytes(() => 100) },
        ];
        await owner(
          `insert into metric_hours (device_id, org_id, begins_at, block) values ($1, $2, $3, $4)`,
          [
            device.deviceId,
            tenant.orgId,
            new Date(today - day * DAY),
            packBlock({ stepSeconds: 3600, series }, { hasRange: true }),
          ],
        );
      }
      await send([sample(0, { volumes: [volume('/', 70), volume('/new', 10)] })]);
      const [root, fresh] = await now();
      expect(root).to.include({ volume: '/', value: 70 });
      expect(root?.forecast?.fullInDays).to.be.closeTo(15, 0.5);
      expect(root?.forecast?.confidence).to.equal(1);
      expect(fresh?.forecast).to.equal(null);
    });
  });
});
