import { expect } from 'chai';
import {
  buildDevice,
  buildOrganization,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { alertGround } from '../../../support/alert-rule-ground.ts';

interface Told {
  id: string;
  kind: string;
  status: string;
  count: number;
  resolution: string | null;
  title: string;
  message: string;
  raisedAt: string;
  lastAt: string;
  details: Record<string, unknown>;
  resolvedBy: string | null;
}

describe('the alert rules of an organization from the start', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let ground: ReturnType<typeof alertGround>;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    ground = alertGround(app);
  });
  after(async () => app.close());

  const alertsOf = async ({ deviceId }: EnrolledDevice): Promise<Told[]> =>
    (await app.call('GET', `/alerts?deviceId=${deviceId}`, { token: tenant.admin.token })).body.data;
  const only = async (device: EnrolledDevice): Promise<Told> => {
    const alerts = await alertsOf(device);
    expect(alerts).to.have.length(1);
    return alerts[0]!;
  };
  const act = (id: string, action: string, body: object = {}) =>
    app.call('POST', `/alerts/${id}/${action}`, { token: tenant.admin.token, body });
  const change = async (orgId: string, alertKind: string, body: object) => {
    const path = `/alert-rules/${await ground.ruleOf(orgId, alertKind)}`;
    expect((await app.call('PATCH', path, { token: tenant.admin.token, body })).status).to.equal(200);
  };
  /** Null: the rule with which the organization begins is disabled. */
  const offlineAfter = (orgId: string, forMinutes: number | null) =>
    change(
      orgId,
      'device_offline',
      forMinutes === null
        ? { enabled: false }
        : { enabled: true, condition: { kind: 'offline', forMinutes } },
    );
  const diskAt = (orgId: string, threshold: number | null) =>
    change(
      orgId,
      'disk_full',
      threshold === null
        ? { enabled: false }
        : {
            condition: {
              kind: 'metric',
              metric: 'diskPercent',
              operator: 'greaterThanOrEquals',
              threshold,
              forMinutes: 0,
            },
          },
    );
  const organization = (row: Record<string, unknown> = {}) => buildOrganization(app, tenant.partnerId, row);
  const device = async (orgId = tenant.orgId) => buildDevice(app, orgId);

  describe('for an offline device', () => {
    for (const form of ['short', 'whole'] as const) {
      it(`raise one alert after the threshold and resolve it when the device is back (${form} rounds)`, async () => {
        const round = ground[form];
        const one = await device();
        await ground.gone(one, 29);
        await round();
        expect(await alertsOf(one)).to.deep.equal([]);
        await ground.gone(one, 31);
        expect(await round()).to.deep.equal({ isWhole: form === 'whole', raised: 1, resolved: 0 });
        const alert = await only(one);
        expect(alert).to.deep.include({
          kind: 'device_offline',
          status: 'active',
          count: 1,
          severity: 'high',
        });
        expect(alert.title).to.match(/^DESK-\d+ is offline$/);
        expect(alert.message).to.match(
          /^DESK-\d+ has not been connected since .* UTC, which is more than 30 minutes\.$/,
        );
        expect(alert.details['since']).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
        expect(alert.details).to.include({ reason: 'socket_closed', thresholdMinutes: 30 });
        for (let i = 0; i < 3; i++) expect(await round()).to.deep.include({ raised: 0, resolved: 0 });
        await ground.back(one, 1);
        await round();
        expect((await only(one)).status, 'it may go again').to.equal('active');
        await ground.back(one, 2.5);
        expect(await round()).to.deep.include({ raised: 0, resolved: 1 });
        expect(await only(one)).to.deep.include({
          status: 'resolved',
          resolution: 'The device is connected again.',
          resolvedBy: null,
          count: 1,
        });
      });
    }

    it('count a flapping device in one alert', async () => {
      const one = await device();
      for (let times = 1; times <= 10; times++) {
        await ground.gone(one, 31);
        // Another absence than the last one.
        await ground.sql(`update alerts set last_at = now() - interval '40 minutes' where device_id = ?`, [
          one.deviceId,
        ]);
        await ground.short();
        expect(await only(one)).to.deep.include({ status: 'active', count: times });
        // Sometimes long enough for the alert to resolve itself, and sometimes not.
        await ground.back(one, times % 2 === 0 ? 1 : 3);
        await ground.short();
      }
    });

    it('raise a new alert long after the device was back', async () => {
      const one = await device();
      await ground.gone(one, 31);
      await ground.short();
      await ground.back(one, 3);
      await ground.short();
      await ground.sql(
        `update alerts set resolved_at = now() - interval '2 hours', last_at = now() - interval '3 hours' where device_id = ?`,
        [one.deviceId],
      );
      await ground.gone(one, 31);
      await ground.short();
      const alerts = await alertsOf(one);
      expect(alerts.map(({ status }) => status)).to.deep.equal(['active', 'resolved']);
    });

    it('keep an alert acknowledged, and do not raise a resolved one again for the same absence', async () => {
      const [known, done] = [await device(), await device()];
      for (const one of [known, done]) await ground.gone(one, 31);
      await ground.short();
      expect((await act((await only(known)).id, 'acknowledge')).status).to.equal(200);
      expect((await act((await only(done)).id, 'resolve', { note: 'It was sold.' })).status).to.equal(200);
      for (let i = 0; i < 2; i++) await ground.whole();
      expect((await only(known)).status).to.equal('acknowledged');
      expect(await only(done)).to.deep.include({ status: 'resolved', resolution: null, count: 1 });
      for (const one of [known, done]) await ground.back(one, 3);
      await ground.short();
      expect((await only(known)).status).to.equal('resolved');
      // By whom it was resolved stays as it was.
      expect(await only(done)).to.deep.include({ resolvedBy: tenant.admin.id, resolution: null });
      await ground.gone(done, 31);
      await ground.short();
      expect((await alertsOf(done)).map(({ status }) => status)).to.deep.equal(['active', 'resolved']);
    });

    it('use the threshold of its organization; null disables the alert', async () => {
      const [quick, never, usual] = [await organization(), await organization(), await organization()];
      await offlineAfter(quick, 2);
      await offlineAfter(never, null);
      const [a, b, c] = [await device(quick), await device(never), await device(usual)];
      for (const one of [a, b, c]) await ground.gone(one, 3);
      await ground.short();
      expect((await alertsOf(a)).length).to.equal(1);
      for (const one of [b, c]) await ground.gone(one, 10_000);
      await ground.whole();
      expect([(await alertsOf(b)).length, (await alertsOf(c)).length]).to.deep.equal([0, 1]);
      // Switched off, what is open ends; switched on again, the same absence is told of.
      await offlineAfter(usual, null);
      await ground.whole();
      expect(await only(c)).to.deep.include({
        status: 'resolved',
        resolution: 'No alert rule watches for this any more.',
      });
      await offlineAfter(usual, 60);
      await ground.whole();
      expect(await only(c)).to.deep.include({ status: 'active', count: 2, resolution: null });
      // As a person would say it.
      for (const [minutes, words] of [
        [60, '1 hour'],
        [90, '90 minutes'],
        [7200, '5 days'],
      ] as const) {
        await offlineAfter(usual, null);
        await ground.whole();
        await offlineAfter(usual, minutes);
        await ground.whole();
        expect((await only(c)).message).to.match(new RegExp(`, which is more than ${words}\\.$`));
      }
    });

    it('raise nothing in maintenance, quarantine or decommissioning, or in a suspended or deleted organization', async () => {
      const devices: EnrolledDevice[] = [];
      for (const condition of ['maintenance', 'quarantined', 'pending', 'decommissioned']) {
        const one = await device();
        await ground.sql(`update devices set condition = ? where id = ?`, [condition, one.deviceId]);
        devices.push(one);
      }
      for (const change of [`status = 'suspended'`, `status = 'churned'`, 'deleted_at = now()']) {
        const orgId = await organization();
        devices.push(await device(orgId));
        await ground.sql(`update organizations set ${change} where id = ?`, [orgId]);
      }
      const stranger = await buildTenant(app);
      devices.push(await device(stranger.orgId));
      await ground.sql(`update partners set status = 'suspended' where id = ?`, [stranger.partnerId]);
      for (const one of devices) await ground.gone(one, 31);
      await ground.short();
      await ground.whole();
      const ids = devices.map(({ deviceId }) => deviceId);
      expect(
        await ground.sql(`select * from alerts where device_id = any(?::uuid[])`, [`{${ids.join(',')}}`]),
      ).to.deep.equal([]);
      // Maintenance that has ended is told of by the next whole round.
      await ground.sql(`update devices set condition = 'normal' where id = ?`, [ids[0]!]);
      await ground.whole();
      expect((await only(devices[0]!)).status).to.equal('active');
      // Out of service, it is nobody's concern any more.
      await app.call('DELETE', `/devices/${ids[0]}`, { token: tenant.admin.token });
      await ground.whole();
      expect(await only(devices[0]!)).to.deep.include({
        status: 'resolved',
        resolution: 'The device is out of service.',
      });
    });

    it('treat a device that reports over HTTP as online', async () => {
      const one = await device();
      await ground.gone(one, 600);
      await ground.sql(
        `update device_presence set reports_until = now() + interval '1 minute' where device_id = ?`,
        [one.deviceId],
      );
      await ground.whole();
      expect(await alertsOf(one)).to.deep.equal([]);
      await ground.sql(
        `update device_presence set reports_until = now() - interval '31 minutes' where device_id = ?`,
        [one.deviceId],
      );
      await ground.short();
      expect((await only(one)).status).to.equal('active');
      await ground.sql(
        `update device_presence set reports_until = now() + interval '1 minute' where device_id = ?`,
        [one.deviceId],
      );
      await ground.short();
      expect((await only(one)).status).to.equal('resolved');
    });

    it('raise nothing for a device that was never connected', async () => {
      const one = await device();
      await ground.whole();
      expect(await alertsOf(one)).to.deep.equal([]);
    });
  });

  describe('for a full disk', () => {
    it('raise an alert at the threshold and resolve it well below', async () => {
      const one = await device();
      const at = async (percent: number) => {
        await ground.disk(one, percent);
        await ground.whole();
        return (await alertsOf(one)).map(({ status }) => status).join();
      };
      expect(await at(89.99)).to.equal('');
      expect(await at(90)).to.equal('active');
      expect(await only(one)).to.deep.include({ kind: 'disk_full', count: 1 });
      expect((await only(one)).message).to.match(
        /^The disk of DESK-\d+ is 90 % full; the threshold is 90 %\.$/,
      );
      expect((await only(one)).details).to.deep.include({ metric: 'diskPercent', value: 90, threshold: 90 });
      expect(await at(99.5)).to.equal('active');
      expect(await at(88)).to.equal('active');
      expect(await at(85)).to.equal('active');
      expect(await at(84.9)).to.equal('resolved');
      expect(await only(one)).to.deep.include({ resolution: 'The disk is 84.9 % full.', count: 1 });
      expect(await at(91)).to.equal('active');
      expect((await only(one)).count).to.equal(2);
    });

    it('ignore organizations that disabled the rule, and use the threshold of others', async () => {
      const [off, low] = [await device(await organization()), await device(await organization())];
      await diskAt(off.orgId, null);
      await diskAt(low.orgId, 50);
      await ground.disk(off, 100);
      await ground.disk(low, 50.5);
      await ground.whole();
      expect(await alertsOf(off)).to.deep.equal([]);
      expect((await only(low)).kind).to.equal('disk_full');
    });

    it('do not raise a resolved alert again until the disk has recovered', async () => {
      const one = await device();
      await ground.disk(one, 95);
      await ground.whole();
      await act((await only(one)).id, 'resolve');
      await ground.whole();
      expect((await only(one)).status).to.equal('resolved');
      await ground.disk(one, 50);
      await ground.whole();
      await ground.disk(one, 95);
      await ground.whole();
      expect((await alertsOf(one)).map(({ status }) => status)).to.deep.equal(['active', 'resolved']);
    });

    it('raise separate alerts for the disk and the absence of one device', async () => {
      const one = await device();
      await ground.disk(one, 95);
      await ground.gone(one, 31);
      await ground.whole();
      expect((await alertsOf(one)).map(({ kind }) => kind)).to.have.members(['disk_full', 'device_offline']);
    });
  });
});
