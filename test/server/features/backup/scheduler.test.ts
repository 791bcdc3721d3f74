import { expect } from 'chai';
import { runSchedules } from '../../../../src/features/backup/scheduler.ts';
import { buildDevice, buildSite } from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';

/** Which jobs the schedules of configurations make, at times that the test chooses. */

const DAILY = { frequency: 'daily', time: '02:00', timezone: 'UTC' };
const MINUTE_MS = 60_000;
const tomorrow = (clock: string, days = 1) => {
  const day = new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
  return new Date(`${day}T${clock}:00.000Z`);
};

describe('the scheduler of backups', () => {
  let app: TestApp;
  let tenant: BackupTenant;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    // Those of the test before would be due as well.
    await inSystem(app, (tx) => tx('backup_configs').update({ enabled: false }));
    tenant = await buildBackupTenant(app);
  });

  const round = (now: Date) => runSchedules({ db: app.server.database.pool, log: quietLog }, now);
  /** Its first slot is tomorrow's, at whatever time of the day the test runs. */
  const createConfig = async (given: Record<string, unknown>) => {
    const config = await tenant.createConfig(given);
    await inSystem(app, (tx) =>
      tx('backup_configs')
        .where({ id: config.id })
        .update({ scheduled_since: tomorrow('00:00') }),
    );
    return config;
  };
  const devices = async (count: number, machine = {}) =>
    Promise.all(
      Array.from({ length: count }, async () => (await buildDevice(app, tenant.orgId, machine)).deviceId),
    );
  const jobs = (configId: string) =>
    inSystem(app, (tx) =>
      tx('backup_jobs')
        .where({ config_id: configId })
        .orderBy('due_at')
        .select<{ id: string; device_id: string; slot: Date; due_at: Date; status: string }[]>(),
    );
  const endAll = () =>
    inSystem(app, (tx) =>
      tx('work')
        .whereNull('finished_at')
        .update({ status: 'completed', stage: 'ended', finished_at: tx.fn.now() }),
    );

  it('makes the job of each device once, spread over half an hour, on however many servers', async () => {
    const ids = await devices(12);
    const { id } = await createConfig({ schedule: DAILY, targets: { all: true } });
    const slot = tomorrow('02:00');
    expect(await round(new Date(slot.getTime() - 1000))).to.equal(0);
    for (let minute = 0; minute <= 32; minute += 4) {
      const now = new Date(slot.getTime() + minute * MINUTE_MS);
      await Promise.all([round(now), round(now), round(now)]);
      for (const job of await jobs(id)) expect(job.due_at.getTime()).to.be.at.most(now.getTime());
    }
    const made = await jobs(id);
    expect(made.map((job) => job.device_id)).to.have.members(ids);
    expect(new Set(made.map((job) => job.due_at.getTime())).size).to.be.greaterThan(6);
    for (const job of made) expect(job.slot).to.deep.equal(slot);
    await endAll();
    expect(await round(new Date(slot.getTime() + 60 * MINUTE_MS)), 'of the same slot').to.equal(0);
  });

  it('makes up for the newest slot that was missed, and for none before the schedule was set', async () => {
    await devices(2);
    const { id } = await tenant.createConfig({ schedule: DAILY, targets: { all: true } });
    await round(new Date());
    expect(await jobs(id)).to.deep.equal([]);
    await round(tomorrow('12:00', 5));
    expect((await jobs(id)).map(({ slot }) => slot)).to.deep.equal([
      tomorrow('02:00', 5),
      tomorrow('02:00', 5),
    ]);
  });

  it('makes nothing for a slot of the schedule before its change', async () => {
    await devices(1);
    const { id } = await createConfig({ schedule: DAILY, targets: { all: true } });
    await round(tomorrow('01:00'));
    await inSystem(app, (tx) =>
      tx('backup_configs')
        .where({ id })
        .update({
          schedule: JSON.stringify({ ...DAILY, time: '05:00' }),
          scheduled_since: tomorrow('01:30'),
        }),
    );
    await round(tomorrow('04:00'));
    expect(await jobs(id)).to.deep.equal([]);
    await round(tomorrow('06:00'));
    expect((await jobs(id)).map(({ slot }) => slot)).to.deep.equal([tomorrow('05:00')]);
  });

  it('goes on with a slot whose configuration is saved with the schedule that it has', async () => {
    const { id } = await createConfig({ schedule: DAILY, targets: { all: true } });
    const save = async (form: object) => {
      const saved = await tenant.send('PATCH', `/backup/configs/${id}`, form);
      expect(saved.status, JSON.stringify(saved.body)).to.equal(200);
      const [row] = await inSystem(app, (tx) =>
        tx('backup_configs').where({ id }).select<{ scheduled_since: Date }[]>('scheduled_since'),
      );
      return row?.scheduled_since;
    };
    const form = { name: 'Saved again', schedule: DAILY, enabled: true };
    expect(await save(form)).to.deep.equal(tomorrow('00:00'));
    expect(await save({ ...form, schedule: { ...DAILY, time: '03:00' } })).to.be.below(tomorrow('00:00'));
  });

  it('makes no second job while one is in flight', async () => {
    await devices(1);
    const { id } = await createConfig({ schedule: DAILY, targets: { all: true } });
    await round(tomorrow('03:00', 1));
    await round(tomorrow('03:00', 2));
    expect(await jobs(id)).to.have.length(1);
    await endAll();
    await round(tomorrow('03:00', 3));
    expect((await jobs(id)).map(({ slot }) => slot)).to.deep.equal([
      tomorrow('02:00', 1),
      tomorrow('02:00', 3),
    ]);
  });

  it('follows devices, groups and filters as they are at that moment', async () => {
    const [named, grouped, matching, other] = await devices(4);
    const group = await tenant.send('POST', '/groups', {
      orgId: tenant.orgId,
      name: 'Servers',
      type: 'static',
    });
    expect(group.status, JSON.stringify(group.body)).to.equal(201);
    const hostname = (await tenant.send('GET', `/devices/${matching}`)).body.hostname;
    const filter = await tenant.send('POST', '/filters', {
      orgId: tenant.orgId,
      name: 'One host',
      conditions: {
        operator: 'AND',
        conditions: [{ field: 'hostname', operator: 'equals', value: hostname }],
      },
    });
    expect(filter.status, JSON.stringify(filter.body)).to.equal(201);
    const filterId = filter.body.id ?? filter.body.data.id;
    const { id } = await createConfig({
      schedule: DAILY,
      targets: { deviceIds: [named], groupIds: [group.body.id], filterId },
    });
    await round(tomorrow('03:00', 1));
    const first = (await jobs(id)).map((job) => job.device_id);
    expect(first).to.have.members([named, matching]);
    await inSystem(app, (tx) =>
      tx('device_group_members').insert({
        group_id: group.body.id,
        device_id: grouped,
        org_id: tenant.orgId,
      }),
    );
    await round(tomorrow('03:00', 2));
    expect((await jobs(id)).map((job) => job.device_id)).to.have.members([named, matching, grouped]);
    expect(first).not.to.include(other);
  });

  it('goes by the time zone of each site, and by the paths of each operating system', async () => {
    const berlin = await buildSite(app, tenant.orgId, { timezone: 'Europe/Berlin' });
    const [here, there] = await devices(2);
    await devices(1, { osType: 'windows' });
    await inSystem(app, (tx) => tx('devices').where({ id: there }).update({ site_id: berlin }));
    await inSystem(app, (tx) => tx('sites').where({ id: tenant.siteId }).update({ timezone: 'UTC' }));
    const { id } = await createConfig({
      schedule: { frequency: 'daily', time: '12:00' },
      targets: { all: true },
    });
    await round(tomorrow('11:45'));
    expect((await jobs(id)).map((job) => job.device_id)).to.deep.equal([there]);
    await round(tomorrow('12:45'));
    expect((await jobs(id)).map((job) => job.device_id)).to.have.members([here, there]);
  });

  it('does nothing for a configuration that is off, and for a suspended organization', async () => {
    await devices(1);
    const off = await createConfig({ schedule: DAILY, targets: { all: true }, enabled: false });
    const on = await createConfig({ name: 'Other', schedule: DAILY, targets: { all: true } });
    await inSystem(app, (tx) =>
      tx('organizations').where({ id: tenant.orgId }).update({ status: 'suspended' }),
    );
    expect(await round(tomorrow('03:00'))).to.equal(0);
    expect([...(await jobs(off.id)), ...(await jobs(on.id))]).to.deep.equal([]);
  });
});
