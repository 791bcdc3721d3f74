import { expect } from 'chai';
import { packBlock, packCompactBlock, unpackBlock } from '../../../../src/features/metrics/block.ts';
import type { Series } from '../../../../src/features/metrics/metric.ts';
import { endMetrics, packSamples, sumUpDays } from '../../../../src/features/metrics/metric.job.ts';
import { joinHours } from '../../../../src/features/metrics/metric-days.job.ts';
import {
  buildDevice,
  buildOrganization,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { openSession } from '../../../../src/platform/db/pool.ts';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const GIB = 2 ** 30;

type Point = [at: number, min: number, avg: number, max: number];

describe('hours of days that are over', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  const today = Math.floor(Date.now() / DAY) * DAY;
  /** So many days ago, whole, over and summed up. */
  const DAYS_AGO = 4;
  const day = today - DAYS_AGO * DAY;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    // Other files share this server, and leave hours there.
    await owner('delete from metric_minutes');
    await owner(
      `with added as (
        select add_partitions('metric_minutes', now() - interval '20 days', now()),
          add_partitions('metric_days', now() - interval '20 days', now())
      ), enrolled as (
        update devices set enrolled_at = enrolled_at - interval '60 days' where id = $1
      ) update metric_progress set summed_up_until = $2 from added`,
      [device.deviceId, new Date(today - DAY)],
    );
  });
  afterEach(async () => {
    await owner(
      `update metric_progress set summed_up_until = '-infinity'; delete from metric_minutes; delete from metric_days`,
    );
  });

  const owner = <Row extends object>(sql: string, values?: unknown[]) =>
    asOwner<Row & Record<string, unknown>>(app.database.ownerUrl, sql, values);
  const db = () => app.server.database.jobPool;
  const join = (now = Date.now()) => joinHours(db(), now);
  const series = (metric: Series['metric'], values: readonly (number | undefined)[], label = ''): Series => {
    const slots = [...values.keys()].filter((slot) => values[slot] !== undefined);
    const avg = slots.map((slot) => values[slot] ?? 0);
    return { metric, label, slots, min: avg, avg, max: avg };
  };
  const compact = (stepSeconds: number, all: Series[], hasRange = false): Buffer => {
    const bytes = packCompactBlock({ stepSeconds, series: all }, { hasRange });
    if (bytes === undefined) throw new Error('The block has too much.');
    return bytes;
  };
  const put = (table: string, at: number, block: Buffer, { deviceId } = device) =>
    owner(`insert into ${table} (device_id, org_id, begins_at, block) values ($1, $2, $3, $4)`, [
      deviceId,
      tenant.orgId,
      new Date(at),
      block,
    ]);
  const hourBlock = (hour: number) => {
    const minutes = Array.from({ length: 60 }, (_, minute) => minute);
    return packBlock(
      {
        stepSeconds: 60,
        series: [
          series(
            'cpuPercent',
            minutes.map((minute) => ((hour * 60 + minute) * 37) % 100),
          ),
          series(
            'volumeUsedBytes',
            minutes.map((minute) => (50 + hour + minute / 60) * GIB),
            '/',
          ),
          series(
            'volumeTotalBytes',
            minutes.map(() => 100 * GIB),
            '/',
          ),
          series(
            'processCpuPercent',
            minutes.map((minute) => (minute % 3 === 0 ? hour : undefined)),
            `process of ${hour}`,
          ),
        ],
      },
      { hasRange: false },
    );
  };
  /** The hours of a day, as they are packed. */
  const fill = (begin = day, { deviceId } = device) => {
    const hours = Array.from({ length: 24 }, (_, hour) => hour);
    return owner(
      `insert into metric_minutes (device_id, org_id, begins_at, block)
      select $1, $2, hour.begins_at, hour.block from unnest($3::timestamptz[], $4::bytea[]) as hour (begins_at, block)`,
      [deviceId, tenant.orgId, hours.map((hour) => new Date(begin + hour * HOUR)), hours.map(hourBlock)],
    );
  };
  const rows = (table: string) =>
    owner<{ begins_at: Date; block: Buffer; org_id: string }>(
      `select begins_at, block, org_id from ${table} where device_id = $1 order by begins_at`,
      [device.deviceId],
    );
  const read = async (from: number, to: number, more = '', token = tenant.admin.token) => {
    const query = `from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}&points=1000${more}`;
    return app.call('GET', `/devices/${device.deviceId}/metrics?${query}`, { token });
  };
  /** Half a day at a time, because an answer has 1,000 points at most. */
  const cpu = async (from: number, to: number): Promise<Point[]> => {
    const points: Point[] = [];
    for (let begin = from; begin < to; begin += DAY / 2) {
      const { body } = await read(begin, Math.min(to, begin + DAY / 2), '&metrics=cpuPercent');
      points.push(...(body.series[0]?.points ?? []));
    }
    return points;
  };

  it('become one row, from which all is read as before', async () => {
    await fill();
    const ranges = [
      [day, day + DAY / 2],
      [day + 90 * MINUTE, day + 5 * HOUR + 7 * MINUTE],
      [day - HOUR, day + HOUR],
    ] as const;
    const readAll = async () => {
      const answers = [];
      for (const [from, to] of ranges) {
        const { body } = await read(from, to);
        expect(body.step).to.equal(60);
        const series = body.series.map((one: object) => JSON.stringify(one)).toSorted();
        answers.push({ ...body, series });
      }
      return answers;
    };
    const before = await readAll();
    expect((await join()).days).to.equal(1);
    expect(await rows('metric_minutes')).to.deep.equal([]);
    expect((await rows('metric_days')).map(({ begins_at }) => begins_at.getTime())).to.deep.equal([day]);
    expect(await readAll()).to.deep.equal(before);
    // Nothing is left to do.
    expect((await join()).days).to.equal(0);
  });

  it('stay until their day is over for good and is summed up', async () => {
    await fill(today - DAY);
    await fill();
    await owner(`update metric_progress set summed_up_until = $1`, [new Date(day)]);
    await join();
    expect(await rows('metric_minutes')).to.have.length(48);
    await owner(`update metric_progress set summed_up_until = $1`, [new Date(today)]);
    await join();
    const left = await rows('metric_minutes');
    expect(left.map(({ begins_at }) => begins_at.getTime())[0]).to.equal(today - DAY);
    expect(left).to.have.length(24);
  });

  it('stay while packing is behind, because their samples may come', async () => {
    await fill();
    await owner(`select add_partitions('metric_samples', now() - interval '5 hours', now())`);
    await owner(
      `insert into metric_samples (device_id, org_id, arrived_at, begins_at, block)
      values ($1, $2, now() - interval '4 hours', now() - interval '1 day', '\\x0100')`,
      [device.deviceId, tenant.orgId],
    );
    expect(await join()).to.deep.equal({ days: 0, dropped: 0 });
    expect(await rows('metric_minutes')).to.have.length(24);
    await owner('delete from metric_samples');
    expect((await join()).days).to.equal(1);
  });

  it('are not summed up either while samples of their day wait to be packed', async () => {
    await fill();
    const before = new Date(day + DAY);
    await owner('update metric_progress set summed_up_until = $1', [new Date(day)]);
    await owner(`select add_partitions('metric_samples', $1, $1)`, [new Date(day + DAY)]);
    const late = packBlock({ stepSeconds: 60, series: [series('load', [7])] }, { hasRange: false });
    await owner(
      `insert into metric_samples (device_id, org_id, arrived_at, begins_at, block) values ($1, $2, $3, $4, $5)`,
      [device.deviceId, tenant.orgId, new Date(day + DAY), new Date(day + 23 * HOUR), late],
    );
    expect(await sumUpDays(db(), before)).to.equal(0);
    await packSamples(db(), new Date(day + DAY + HOUR));
    expect(await sumUpDays(db(), before)).to.equal(1);
    const [hours] = await rows('metric_hours');
    expect(unpackBlock(hours!.block)?.series.find(({ metric }) => metric === 'load')?.avg).to.deep.equal([7]);
    await owner('delete from metric_quarters; delete from metric_hours');
  });

  it('that come late are shown beside the day, replace its minutes, and are joined with it', async () => {
    await fill();
    await join();
    const late = packBlock(
      { stepSeconds: 60, series: [series('cpuPercent', [undefined, 99])] },
      { hasRange: false },
    );
    await owner(`select add_partitions('metric_minutes', $1, $1)`, [new Date(day)]);
    await put('metric_minutes', day + 3 * HOUR, late);
    const find = async () => {
      const points = await cpu(day + 3 * HOUR, day + 3 * HOUR + 3 * MINUTE);
      return points.map(([, , average]) => average);
    };
    const expected = [(180 * 37) % 100, 99, (182 * 37) % 100];
    expect(await find()).to.deep.equal(expected);
    expect(await cpu(day, day + DAY)).to.have.length(1440);
    await join();
    expect(await rows('metric_minutes')).to.deep.equal([]);
    expect(await find()).to.deep.equal(expected);
    expect(await cpu(day, day + DAY)).to.have.length(1440);
  });

  it('are joined once, while samples of the same hours are packed and others join too', async () => {
    await fill();
    const runs = await Promise.all([join(), join(), packSamples(db(), new Date()), join()]);
    expect(runs).to.have.length(4);
    expect(await rows('metric_days')).to.have.length(1);
    expect(await cpu(day, day + DAY)).to.have.length(1440);
  });

  it('are added to what another server joins at the same time', async () => {
    await fill();
    const block = compact(60, [series('cpuPercent', [77])]);
    const session = openSession(app.database.ownerUrl, 'test-other-server');
    try {
      const joining = await session.transaction(async (tx) => {
        await tx.raw(`select pg_advisory_xact_lock(hashtextextended('join hours of metrics', 0))`);
        const run = join();
        await eventually(
          () => owner(`select from pg_locks where locktype = 'advisory' and not granted`),
          (waiting) => waiting.length > 0,
        );
        await tx.raw('insert into metric_days (device_id, org_id, begins_at, block) values (?, ?, ?, ?)', [
          device.deviceId,
          tenant.orgId,
          new Date(day),
          block,
        ]);
        await tx.raw('delete from metric_minutes where device_id = ? and begins_at = ?', [
          device.deviceId,
          new Date(day),
        ]);
        // Awaited behind the transaction, for whose end it waits.
        return { run };
      });
      await joining.run;
    } finally {
      await session.destroy();
    }
    const points = await cpu(day, day + DAY);
    expect(points).to.have.length(23 * 60 + 1);
    expect(points[0]?.[2]).to.equal(77);
  });

  it('that cannot be read stay for a release that can, and do not stop the others', async () => {
    await fill();
    const other = await buildDevice(app, tenant.orgId);
    await fill(day, other);
    await owner(
      `update metric_minutes set block = case extract(hour from begins_at at time zone 'utc') when 5 then '\\x09aa'::bytea
        else '\\x0100ff'::bytea end
      where device_id = $1 and extract(hour from begins_at at time zone 'utc') in (5, 6)`,
      [device.deviceId],
    );
    await join();
    expect((await rows('metric_minutes')).map(({ begins_at }) => begins_at.getTime())).to.deep.equal([
      day + 5 * HOUR,
      day + 6 * HOUR,
    ]);
    expect(await cpu(day, day + DAY)).to.have.length(22 * 60);
    const [joined] = await owner<{ count: number }>(
      'select count(*)::int as count from metric_days where device_id = $1',
      [other.deviceId],
    );
    expect(joined?.count).to.equal(1);
  });

  it('are not joined with a day that cannot be read, which stays for a release that can', async () => {
    const unknown = Buffer.from([9, 1, 2]);
    await put('metric_days', day, unknown);
    await fill();
    await join();
    expect((await rows('metric_days'))[0]?.block).to.deep.equal(unknown);
    expect(await rows('metric_minutes')).to.have.length(24);
    expect(await cpu(day, day + DAY)).to.have.length(1440);
  });

  it('of a day whose row is damaged are missing from charts, and the rest is shown', async () => {
    await fill();
    await fill(day + DAY);
    await owner(`update metric_progress set summed_up_until = $1`, [new Date(today)]);
    await join();
    await owner(
      `update metric_days set block = set_byte(block, length(block) / 2, 255 - get_byte(block, length(block) / 2))
      where device_id = $1 and begins_at = $2`,
      [device.deviceId, new Date(day)],
    );
    const from = day + 23 * HOUR;
    const { status, body } = await read(from, from + 2 * HOUR, '&metrics=cpuPercent');
    expect(status).to.equal(200);
    expect(body.series[0].points).to.have.length(60);
    expect(body.gaps.map((gap: { from: string; to: string }) => [gap.from, gap.to])).to.deep.equal([
      [new Date(from).toISOString(), new Date(from + HOUR).toISOString()],
    ]);
  });

  it('leave a partition behind that is dropped a day later, once nothing is in it', async () => {
    await fill();
    const partitions = async () =>
      (
        await owner<{ begins: Date }>(`select begins from partitions_of('metric_minutes') where ends <= $1`, [
          new Date(day + DAY),
        ])
      ).map(({ begins }) => begins.getTime());
    await join(day + DAY + 28 * HOUR);
    expect(await rows('metric_minutes')).to.deep.equal([]);
    expect(await partitions()).to.include(day);
    await put('metric_minutes', day + 3 * HOUR, Buffer.from([9]));
    await join();
    expect(await partitions()).to.deep.equal([day]);
    await owner('delete from metric_minutes');
    await join();
    expect(await partitions()).to.deep.equal([]);
  });

  it('keep their partition while it is in use, until the next run', async () => {
    await fill();
    await join();
    const isThere = async () =>
      (await owner(`select from partitions_of('metric_minutes') where begins = $1`, [new Date(day)]))
        .length === 1;
    await owner(`select add_partitions('metric_minutes', $1, $1)`, [new Date(day)]);
    const session = openSession(app.database.ownerUrl, 'test-in-use');
    try {
      await session.transaction(async (tx) => {
        await tx.raw('lock table metric_minutes in row exclusive mode');
        expect(await join()).to.deep.equal({ days: 0, dropped: 0 });
        expect(await isThere()).to.equal(true);
      });
    } finally {
      await session.destroy();
    }
    await join();
    expect(await isThere()).to.equal(false);
  });

  describe('as a day', () => {
    beforeEach(async () => {
      await fill();
      await join();
    });

    it('are seen by their organization only', async () => {
      const other = await buildTenant(app);
      const { status } = await read(day, day + DAY / 2, '', other.admin.token);
      expect(status).to.equal(404);
    });

    it('go with their device to another organization', async () => {
      const orgId = await buildOrganization(app, tenant.partnerId);
      const { status } = await app.call('POST', `/devices/${device.deviceId}/move`, {
        token: tenant.admin.token,
        body: { orgId, siteId: await buildSite(app, orgId) },
      });
      expect(status).to.equal(200);
      expect((await rows('metric_days')).map(({ org_id }) => org_id)).to.deep.equal([orgId]);
      expect(await cpu(day, day + DAY)).to.have.length(1440);
    });

    it('are kept as long as figures of each minute', async () => {
      const [joined] = await rows('metric_days');
      if (joined === undefined) throw new Error('There is no day.');
      for (const days of [10, 13, 15, 17]) await put('metric_days', today - days * DAY, joined.block);
      const left = async () =>
        (await rows('metric_days')).map(({ begins_at }) => (today - begins_at.getTime()) / DAY);
      await endMetrics({ db: db(), log: quietLog }, Date.now());
      expect(await left()).to.deep.equal([13, 10, DAYS_AGO]);
      const kept = { minuteDays: 5, quarterDays: 30, hourDays: 365 };
      const { status } = await app.call('PUT', `/orgs/organizations/${tenant.orgId}/metric-retention`, {
        token: tenant.admin.token,
        body: kept,
      });
      expect(status).to.equal(200);
      await endMetrics({ db: db(), log: quietLog }, Date.now());
      expect(await left()).to.deep.equal([DAYS_AGO]);
      // Its last minutes are three days old, and the chart of them is the finest one that is kept.
      await app.call('PUT', `/orgs/organizations/${tenant.orgId}/metric-retention`, {
        token: tenant.admin.token,
        body: { ...kept, minuteDays: 2 },
      });
      await endMetrics({ db: db(), log: quietLog }, Date.now());
      expect(await left()).to.deep.equal([]);
    });
  });

  it('are summed up before, and charts of weeks do not change', async () => {
    await fill();
    await owner(`update metric_progress set summed_up_until = $1`, [new Date(day)]);
    await sumUpDays(db(), new Date(today - DAY));
    const weeks = () => read(today - 10 * DAY, today);
    const before = await weeks();
    expect(before.body.step).to.equal(900);
    await join();
    expect((await weeks()).body).to.deep.equal(before.body);
    expect(before.body.series.length).to.be.greaterThan(2);
  });

  it('and sums that a later release writes in the same format are read', async () => {
    const slots = [0, 1, 23];
    const sums: Series = {
      metric: 'cpuPercent',
      label: '',
      slots,
      min: [1, 2, 3],
      avg: [5, 6, 7],
      max: [9, 9.5, 100],
    };
    const block = compact(3600, [sums], true);
    const begin = today - 100 * DAY;
    await owner(`select add_partitions('metric_hours', $1, $1)`, [new Date(begin)]);
    await owner(`update devices set enrolled_at = $1 where id = $2`, [new Date(begin), device.deviceId]);
    await put('metric_hours', begin, block);
    const { body } = await read(begin, begin + DAY);
    expect(body.series[0].points).to.deep.equal(
      slots.map((slot, at) => [begin + slot * HOUR, sums.min[at], sums.avg[at], sums.max[at]]),
    );
  });

  it('of a device that sends as many names as it may are joined without losing one', async () => {
    for (let hour = 0; hour < 3; hour += 1) {
      const names = Array.from({ length: 256 }, (_, n) =>
        series('processCpuPercent', [n % 100], `${'x'.repeat(90)} ${hour} ${n}`),
      );
      await put(
        'metric_minutes',
        day + hour * HOUR,
        packBlock({ stepSeconds: 60, series: names }, { hasRange: false }),
      );
    }
    await join();
    const [joined] = await rows('metric_days');
    expect(unpackBlock(joined?.block ?? Buffer.alloc(0))?.series).to.have.length(3 * 256);
    const { body } = await read(day, day + DAY / 2);
    // A chart has fewer.
    expect(body.series).to.have.length(256);
  });

  it('are what a forecast is made of where sums are not kept so long', async () => {
    const minutes = Array.from({ length: 1440 }, (_, minute) => minute);
    const used = (at: number) => (50 + (2 * (at - today)) / DAY) * GIB;
    for (let ago = 4; ago >= 1; ago -= 1) {
      const begin = today - ago * DAY;
      const all = [
        series(
          'volumeUsedBytes',
          minutes.map((minute) => used(begin + minute * MINUTE)),
          '/',
        ),
        series(
          'volumeTotalBytes',
          minutes.map(() => 100 * GIB),
          '/',
        ),
      ];
      const block = compact(60, all);
      await put('metric_days', begin, block);
    }
    const agent = await connectDevice(app, device.token);
    const sent = agent.send('metrics:samples', {
      samples: [
        {
          at: new Date().toISOString(),
          volumes: [{ volume: '/', usedBytes: used(Date.now()), totalBytes: 100 * GIB }],
        },
      ],
    });
    await agent.heartbeat();
    await app.settle();
    expect(await sent).to.deep.equal({ ok: true });
    agent.close();
    const { body } = await app.call('GET', '/metrics/now', { token: tenant.admin.token });
    expect(body.data[0].forecast.fullInDays).to.be.within(24, 26.1);
  });

  it('are read by the preview of an alert rule', async () => {
    await fill();
    const preview = async () => {
      const { status, body } = await app.call('POST', '/alert-rules/preview', {
        token: tenant.admin.token,
        body: {
          orgId: tenant.orgId,
          target: { all: true },
          condition: {
            kind: 'metric',
            metric: 'diskPercent',
            operator: 'greaterThan',
            threshold: 70,
            forMinutes: 5,
          },
        },
      });
      expect(status, JSON.stringify(body)).to.equal(200);
      const { from: _from, to: _to, ...found } = body;
      return found;
    };
    const before = await preview();
    await join();
    expect(await preview()).to.deep.equal(before);
    expect(JSON.stringify(before)).to.contain(device.deviceId);
  });

  it('and a device that sends meanwhile is acknowledged', async () => {
    await fill();
    const agent = await connectDevice(app, device.token);
    const sent = agent.send('metrics:samples', {
      samples: [{ at: new Date().toISOString(), cpuPercent: 5 }],
    });
    await agent.heartbeat();
    await Promise.all([join(), app.settle()]);
    expect(await sent).to.deep.equal({ ok: true });
    agent.close();
  });
});
