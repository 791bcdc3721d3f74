import { expect } from 'chai';
import fc from 'fast-check';
import { clock } from '../../../../src/clock.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, buildOrganization, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { windowGround } from '../maintenance-windows/windows-support.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

describe('planned maintenance in the report on a month', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  /** The month before the present one, in UTC. */
  let month: string;
  let begin: number;
  let end: number;
  const { send, plan } = windowGround(
    () => app,
    () => tenant.admin,
  );

  before(async () => {
    app = await sharedTestApp();
    const now = clock.date();
    begin = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1);
    end = Date.UTC(now.getUTCFullYear(), now.getUTCMonth());
    month = new Date(begin).toISOString().slice(0, 7);
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    await recordedSince(tenant.orgId, new Date(begin - 1000 * HOUR));
  });

  const inSystem = <T>(work: Parameters<typeof withSystem<T>>[2]) =>
    withSystem(app.server.database.pool, 'test', work);
  const minute = (minutes: number) => new Date(begin + minutes * MINUTE);
  const recordedSince = (orgId: string, since: Date) =>
    inSystem((tx) =>
      tx('organizations')
        .where({ id: orgId })
        .update({ created_at: minute(-100_000), maintenance_recorded_since: since }),
    );
  const availability = async (orgId = tenant.orgId, of = month) => {
    const { status, body } = await send('GET', `/reports/month?orgId=${orgId}&month=${of}`);
    expect(status, JSON.stringify(body)).to.equal(200);
    return body.availability;
  };
  /** The present month, on clocks by which it neither begins nor ends within the hour. */
  const presentMonth = async (): Promise<string> => {
    const monthAt = (at: number, timeZone: string) =>
      new Intl.DateTimeFormat('sv', { timeZone, year: 'numeric', month: '2-digit' }).format(at);
    const now = clock.now();
    const isAmid = monthAt(now - HOUR, 'UTC') === monthAt(now + HOUR, 'UTC');
    const timezone = isAmid ? 'UTC' : 'Pacific/Honolulu';
    await inSystem((tx) =>
      tx('organizations')
        .where({ id: tenant.orgId })
        .update({ settings: JSON.stringify({ timezone }) }),
    );
    return monthAt(now, timezone);
  };
  /** In service for longer than the month. */
  const deviceOf = async (orgId = tenant.orgId): Promise<string> => {
    const { deviceId } = await buildDevice(app, orgId);
    await inSystem(async (tx) => {
      await tx('devices')
        .where({ id: deviceId })
        .update({ created_at: minute(-100_000) });
      await tx('device_presence')
        .where({ device_id: deviceId })
        .update({ since: new Date(end + HOUR) });
    });
    return deviceId;
  };
  interface Change {
    at: number;
    state: 'connected' | 'disconnected';
  }
  const presence = async (deviceId: string, changes: readonly Change[]) => {
    await inSystem(async (tx) => {
      await tx.raw(`select add_partitions('presence_changes', ?, ?)`, [minute(-60_000), new Date(end)]);
      if (changes.length === 0) return;
      await tx('presence_changes').insert(
        changes.map(({ at, state }) => ({
          org_id: tenant.orgId,
          device_id: deviceId,
          at: minute(at),
          state,
          reason: state === 'connected' ? 'connected' : 'socket_closed',
        })),
      );
    });
  };
  const past = (deviceIds: readonly string[], from: number, to: number, orgId = tenant.orgId) =>
    inSystem((tx) =>
      tx('past_maintenance').insert({
        id: newId(),
        org_id: orgId,
        begins_at: minute(from),
        ends_at: minute(to),
        device_ids: [...deviceIds],
      }),
    );

  it('counts neither for nor against the availability, and its length is told', async () => {
    const [one, other] = [await deviceOf(), await deviceOf()];
    for (const device of [one, other]) {
      // oxlint-disable-next-line no-await-in-loop
      await presence(device, [{ at: -10, state: 'connected' }]);
    }
    // Restarted within the window, back an hour after its end, and lost once more by itself.
    await presence(one, [
      { at: 60, state: 'disconnected' },
      { at: 240, state: 'connected' },
      { at: 1000, state: 'disconnected' },
      { at: 1030, state: 'connected' },
    ]);
    await past([one, other], 30, 180);
    await past([one], 120, 200);
    const total = (end - begin) / MINUTE;
    const found = await availability();
    expect(found.connectedShare).to.be.closeTo((2 * total - 320 - 40 - 30) / (2 * total - 320), 1e-9);
    expect(found).to.deep.include({
      knownShare: 1,
      disconnections: 1,
      plannedMaintenance: { minutes: 170, devices: 2, deviceMinutes: 320, disconnectedMinutes: 140 },
      plannedMaintenanceSince: null,
    });
    expect(found.leastAvailable).to.have.length(1);
    expect(found.leastAvailable[0]).to.include({
      id: one,
      disconnectedMinutes: 70,
      disconnections: 1,
      plannedMaintenanceMinutes: 170,
    });
  });

  it('is kept when windows are over, changed or deleted, and when devices leave them', async () => {
    const current = await presentMonth();
    const [stays, leaves] = [await deviceOf(), await deviceOf()];
    const planned = async () => (await availability(tenant.orgId, current)).plannedMaintenance;
    const window = await plan({ orgId: tenant.orgId, target: { deviceIds: [stays, leaves] } });
    // It was planned just now, ten minutes after its beginning, so nothing of it is maintenance yet.
    expect(await planned()).to.include({ minutes: 0, devices: 2 });
    const passed = (minutes: number) =>
      inSystem((tx) =>
        tx('maintenance_members')
          .where({ window_id: window.id })
          .update({ planned_from: new Date(Date.now() - minutes * MINUTE) }),
      );
    await passed(7);
    expect(await planned()).to.include({ minutes: 7, deviceMinutes: 14 });
    await send('PATCH', `/maintenance-windows/${window.id}`, { target: { deviceIds: [stays] } });
    await app.settle();
    expect(await planned()).to.include({ minutes: 7, devices: 2, deviceMinutes: 14 });
    await passed(9);
    await send('PATCH', `/maintenance-windows/${window.id}`, { durationMinutes: 120, name: 'Longer' });
    await app.settle();
    expect(await planned()).to.include({ minutes: 9, devices: 2, deviceMinutes: 16 });
    expect((await send('DELETE', `/maintenance-windows/${window.id}`)).status).to.equal(200);
    expect(await planned()).to.include({ minutes: 9, devices: 2, deviceMinutes: 16 });
  });

  it('begins for a device that joins later when it joins', async () => {
    const current = await presentMonth();
    const [first, later] = [await deviceOf(), await deviceOf()];
    const window = await plan({ orgId: tenant.orgId, target: { deviceIds: [first] } });
    await inSystem(async (tx) => {
      await tx('maintenance_windows')
        .where({ id: window.id })
        .update({
          target: JSON.stringify({ deviceIds: [first, later] }),
          updated_at: minute(0),
          due_at: new Date(),
        });
      await tx('maintenance_members')
        .where({ window_id: window.id })
        .update({ planned_from: new Date(Date.now() - 8 * MINUTE) });
    });
    await app.settle();
    expect((await availability(tenant.orgId, current)).plannedMaintenance).to.include({
      devices: 2,
      deviceMinutes: 8,
    });
  });

  it('of before it was recorded counts as any other time, and the report says so', async () => {
    const device = await deviceOf();
    await presence(device, [{ at: 0, state: 'connected' }]);
    await recordedSince(tenant.orgId, minute(600));
    expect((await availability()).plannedMaintenanceSince).to.equal(minute(600).toISOString());
  });

  it('is kept of an organization apart from others', async () => {
    const other = await buildOrganization(app, tenant.partnerId);
    const device = await deviceOf();
    await past([device], 0, 60, other);
    expect((await availability()).plannedMaintenance).to.include({ minutes: 0, devices: 0 });
    const seen = await app.call('GET', `/reports/month?orgId=${other}&month=${month}`, {
      token: tenant.technician.token,
    });
    expect(seen.status).to.equal(403);
  });

  it('is subtracted exactly, whatever overlaps: as if each minute were looked at by itself', async () => {
    const devices = [await deviceOf(), await deviceOf(), await deviceOf()];
    const total = (end - begin) / MINUTE;
    const at = fc.oneof(
      fc.integer({ min: -300, max: 900 }),
      fc.integer({ min: total - 300, max: total + 300 }),
    );
    const changes = fc.uniqueArray(
      fc.record({ at: fc.oneof(at, fc.constant(0)), state: fc.constantFrom('connected', 'disconnected') }),
      { selector: (one) => one.at, maxLength: 7 },
    );
    const windows = fc.array(
      fc.record({
        from: at,
        length: fc.integer({ min: 1, max: 500 }),
        of: fc.subarray([0, 1, 2], { minLength: 1 }),
      }),
      { maxLength: 5 },
    );
    await fc.assert(
      fc.asyncProperty(fc.tuple(changes, changes, changes), windows, async (timelines, planned) => {
        await inSystem(async (tx) => {
          await tx('presence_changes').where({ org_id: tenant.orgId }).delete();
          await tx('past_maintenance').where({ org_id: tenant.orgId }).delete();
        });
        const stored = timelines.map((timeline) =>
          timeline.filter((change) => change.at < total).sort((a, b) => a.at - b.at),
        );
        for (const [index, deviceId] of devices.entries()) {
          // oxlint-disable-next-line no-await-in-loop
          await presence(deviceId, stored[index] ?? []);
        }
        for (const { from, length, of } of planned) {
          const ids = of.map((index) => devices[index] ?? '');
          // oxlint-disable-next-line no-await-in-loop
          await past(ids, from, from + length);
        }
        const found = await availability();
        const model = byTheMinute(stored, planned, total);
        expect(found.connectedShare === null).to.equal(model.judged === 0);
        if (model.judged > 0) {
          expect(found.connectedShare).to.be.closeTo(model.connected / model.judged, 1e-9);
        }
        expect(found.knownShare).to.be.closeTo(model.known / (3 * total), 1e-9);
        expect(found.disconnections).to.equal(model.losses);
        expect(found.plannedMaintenance).to.deep.equal(model.plannedMaintenance);
      }),
      { numRuns: 25 },
    );
  });

  interface Planned {
    from: number;
    length: number;
    of: readonly number[];
  }

  function byTheMinute(
    timelines: readonly (readonly Change[])[],
    planned: readonly Planned[],
    total: number,
  ) {
    const sums = { connected: 0, judged: 0, known: 0, losses: 0, maintained: 0, away: 0 };
    const anyPlanned = new Set<number>();
    const covered = new Set<number>();
    for (const [index, timeline] of timelines.entries()) {
      const isPlanned = (time: number) =>
        planned.some(({ from, length, of }) => of.includes(index) && from <= time && time < from + length);
      let place = -1;
      for (let time = 0; time < total; time++) {
        for (
          let next = timeline[place + 1];
          next !== undefined && next.at <= time;
          next = timeline[place + 1]
        ) {
          place += 1;
          const isLoss = next.state === 'disconnected' && timeline[place - 1]?.state === 'connected';
          if (isLoss && next.at >= 0 && !isPlanned(next.at)) sums.losses += 1;
        }
        const state = timeline[place]?.state;
        if (state !== undefined) sums.known += 1;
        if (isPlanned(time)) {
          anyPlanned.add(time);
          covered.add(index);
          sums.maintained += 1;
          if (state === 'disconnected') sums.away += 1;
        } else if (state !== undefined) {
          sums.judged += 1;
          if (state === 'connected') sums.connected += 1;
        }
      }
    }
    return {
      ...sums,
      plannedMaintenance: {
        minutes: anyPlanned.size,
        devices: covered.size,
        deviceMinutes: sums.maintained,
        disconnectedMinutes: sums.away,
      },
    };
  }
});
