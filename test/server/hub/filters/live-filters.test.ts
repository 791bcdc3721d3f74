import { expect } from 'chai';
import { AVERAGES_CHANGED } from '../../../../src/features/conditions/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { DevicesDelta, DeviceSummary } from '../../../../src/protocol/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildOrganization, buildTenant, type Person } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { FeedClient } from '../../../support/feed-client.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

type Condition = { field: string; operator: string; value?: unknown };
const all = (...conditions: Condition[]) => ({ operator: 'AND', conditions });
const isOnline = { field: 'status', operator: 'equals', value: 'online' };
const isBusy = { field: 'metrics.cpuPercent', operator: 'greaterThan', value: 80 };
const hasTag = (tag: string) => ({ field: 'tags', operator: 'hasAny', value: [tag] });
const metrics = (cpuPercent: number) => ({ metrics: { cpuPercent, ramPercent: 1, diskPercent: 1 } });

describe('live filters', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let watchers: DashboardClient[];
  let agents: FakeDevice[];

  before(async () => {
    app = await createTestApp({ graceMs: 50 });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    watchers = [];
    agents = [];
  });
  afterEach(() => {
    for (const one of [...watchers, ...agents]) one.close();
  });

  const send = (method: string, path: string, body?: unknown, person: Person = tenant.admin) =>
    app.call(method, path, { token: person.token, ...(body === undefined ? {} : { body }) });
  const connect = async (token: string) => {
    const agent = await connectDevice(app, token);
    agents.push(agent);
    return agent;
  };
  const dashboard = async (person: Person = tenant.admin) => {
    const watcher = await connectDashboard(app, person.token);
    watchers.push(watcher);
    return watcher;
  };
  /** Follows a filter as any client does. */
  async function follow(filter: object, person?: Person) {
    const watcher = await dashboard(person);
    const client = new FeedClient();
    const early: DevicesDelta[] = [];
    let id: string | undefined;
    watcher.socket.on('devices:delta', (delta: DevicesDelta) => {
      if (id === undefined) early.push(delta);
      else if (delta.subscriptionId === id) client.take(delta);
    });
    const ended: { subscriptionId: string; code: string; message: string }[] = [];
    watcher.socket.on('devices:ended', (end) => ended.push(end));
    const snapshot = await watcher.subscribe(filter);
    expect(snapshot, JSON.stringify(snapshot)).to.have.property('ok', true);
    id = snapshot.subscriptionId;
    client.start(snapshot.devices, snapshot);
    for (const delta of early) client.take(delta);
    const shows = async (ids: string[]) => {
      await app.settle();
      await eventually(
        () => [...client.devices.keys()].sort(),
        (shown) => JSON.stringify(shown) === JSON.stringify([...ids].sort()),
      );
    };
    return { client, shows, ended, watcher, id };
  }
  const saveFilter = async (conditions: object) => {
    const answer = await send('POST', '/filters', { orgId: tenant.orgId, name: `F ${newId()}`, conditions });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return answer.body.id as string;
  };

  it('show what matches now, then devices that begin or cease to match', async () => {
    const [a, b] = [await buildDevice(app, tenant.orgId), await buildDevice(app, tenant.orgId)];
    const online = await follow({ conditions: all(isOnline) });
    const offline = await follow({ conditions: all({ ...isOnline, operator: 'notEquals' }) });
    const busy = await follow({ filterId: await saveFilter(all(isOnline, isBusy)) });
    await online.shows([]);
    await offline.shows([a.deviceId, b.deviceId]);

    const agent = await connect(a.token);
    // One change: it leaves here and enters there.
    await online.shows([a.deviceId]);
    await offline.shows([b.deviceId]);
    expect(online.client.counts).to.deep.equal({ total: 1, byStatus: { online: 1 } });
    expect(offline.client.counts).to.deep.equal({ total: 1, byStatus: { offline: 1 } });

    await agent.heartbeat(metrics(91));
    await busy.shows([a.deviceId]);
    await eventually(
      () => online.client.devices.get(a.deviceId)?.metrics?.cpuPercent,
      (cpu) => cpu === 91,
    );
    await agent.heartbeat(metrics(12));
    await busy.shows([]);
    expect(busy.client.counts).to.deep.equal({ total: 0, byStatus: {} });
    agent.close();
    await online.shows([]);
    await offline.shows([a.deviceId, b.deviceId]);
    for (const { client } of [online, offline, busy]) expect(client.faults).to.deep.equal([]);
  });

  it('read averages again as soon as they are computed anew', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const isBusyForHours = { field: 'metrics.avg.cpuPercent.1h', operator: 'greaterThan', value: 50 };
    const busy = await follow({ conditions: all(isBusyForHours) });
    const compute = async (cpuPercent: number) => {
      await withSystem(app.server.database.pool, 'test', (tx) =>
        tx.raw(
          `insert into device_metric_averages (device_id, org_id, averages) values (?, ?, ?)
          on conflict (device_id) do update set averages = excluded.averages`,
          [deviceId, tenant.orgId, JSON.stringify({ 'cpuPercent.1h': cpuPercent })],
        ),
      );
      app.server.hub.events.publish(AVERAGES_CHANGED, {});
    };
    await busy.shows([]);
    await compute(80);
    await busy.shows([deviceId]);
    await compute(20);
    await busy.shows([]);
  });

  it('follow changes of a device by people and agents: tags, names, custom fields, site, versions', async () => {
    const { deviceId, token } = await buildDevice(app, tenant.orgId);
    const tagged = await follow({ conditions: all(hasTag('till')) });
    const named = await follow({
      conditions: all({ field: 'displayName', operator: 'startsWith', value: 'till' }),
    });
    const old = await follow({
      conditions: all({ field: 'osVersion', operator: 'equals', value: 'Debian 12' }),
    });
    await old.shows([deviceId]);
    expect(
      (await send('PATCH', `/devices/${deviceId}`, { tags: ['till'], displayName: 'Till 4' })).status,
    ).to.equal(200);
    await tagged.shows([deviceId]);
    await named.shows([deviceId]);
    await send('PATCH', `/devices/${deviceId}`, { tags: [], displayName: 'Desk' });
    await tagged.shows([]);
    await named.shows([]);
    const agent = await connect(token);
    await agent.heartbeat({ osVersion: 'Debian 13' });
    await old.shows([]);
  });

  it('show devices that enroll, and lose those that are decommissioned', async () => {
    const linux = await follow({
      conditions: all({ field: 'osType', operator: 'equals', value: 'linux' }),
    });
    const windows = await follow({
      conditions: all({ field: 'osType', operator: 'equals', value: 'windows' }),
    });
    const { deviceId } = await buildDevice(app, tenant.orgId);
    await linux.shows([deviceId]);
    expect((await send('DELETE', `/devices/${deviceId}`)).status).to.equal(200);
    await linux.shows([]);
    expect(windows.client.frames).to.equal(0);
  });

  it('show devices of an organization that is created later, and never those of another provider', async () => {
    const other = await buildTenant(app);
    const everything = { conditions: all({ field: 'hostname', operator: 'isNotNull' }) };
    const [ours, theirs, technician] = [
      await follow(everything),
      await follow(everything, other.admin),
      await follow(everything, tenant.technician),
    ];
    const orgId = await buildOrganization(app, tenant.partnerId);
    const { deviceId } = await buildDevice(app, orgId);
    await ours.shows([deviceId]);
    expect([theirs.client.frames, technician.client.frames]).to.deep.equal([0, 0]);
  });

  it('are narrowed by organization and site as well', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const conditions = all({ field: 'hostname', operator: 'isNotNull' });
    const here = await follow({ orgId: tenant.orgId.toUpperCase(), conditions });
    const elsewhere = await follow({ siteId: newId(), conditions });
    await here.shows([deviceId]);
    await elsewhere.shows([]);
    const foreign = (await buildTenant(app)).orgId;
    const refused = await (await dashboard()).send('devices:subscribe', { orgId: foreign, conditions });
    expect(refused.error.code).to.equal('FORBIDDEN');
  });

  it('refuse invalid conditions and name the place of each fault', async () => {
    const watcher = await dashboard();
    const ask = (message: object) => watcher.send('devices:subscribe', message);
    const filterId = await saveFilter(all(isOnline));
    expect((await ask({ filterId, conditions: all(isOnline) })).error).to.deep.equal({
      code: 'VALIDATION_FAILED',
      message: 'conditions: must be left out with filterId',
    });
    const faulty = await ask({
      conditions: all({ field: 'hostnam', operator: 'equals', value: 'a' }, { ...isOnline, value: 'on' }),
    });
    expect(faulty.error.code).to.equal('VALIDATION_FAILED');
    expect(faulty.error.message).to.match(/^Unknown field/);
    expect(faulty.error.details.map(({ path }: { path: string }) => path)).to.deep.equal([
      'conditions.conditions.0.field',
      'conditions.conditions.1.value',
    ]);
    const other = await buildTenant(app);
    expect(
      (await (await dashboard(other.admin)).send('devices:subscribe', { filterId })).error,
    ).to.deep.equal({
      code: 'NOT_FOUND',
      message: 'Filter not found',
    });
    expect((await ask({ filterId: newId() })).error.code).to.equal('NOT_FOUND');
    expect((await ask({ conditions: null })).error.code).to.equal('VALIDATION_FAILED');
  });

  describe('in the text of a packet', () => {
    const nested = (levels: number) =>
      '{"operator":"AND","conditions":['.repeat(levels) +
      '{"field":"hostname","operator":"isNotNull"}' +
      ']}'.repeat(levels);
    /** A client's own encoder goes into itself: what is sent here is the text of the packet. */
    const engineOf = ({ socket }: Awaited<ReturnType<typeof dashboard>>) => socket.io.engine;
    const ends = ({ socket }: Awaited<ReturnType<typeof dashboard>>) =>
      new Promise((resolve) => socket.once('disconnect', resolve));
    afterEach('the server is there', async () => {
      await (await follow({ conditions: all(isOnline) })).shows([]);
    });

    it('may be nested as deep as a message allows', async () => {
      const { deviceId } = await buildDevice(app, tenant.orgId);
      const engine = engineOf(await dashboard());
      const answers: string[] = [];
      engine.on('data', (data: string) => answers.push(data));
      engine.write(`2/dashboard,7["devices:subscribe",{"conditions":${nested(20_000)}}]`);
      const answer = await eventually(
        () => answers.find((text) => text.startsWith('3/dashboard,7')) ?? '',
        (text) => text !== '',
      );
      expect(answer).to.include(deviceId).and.include('"ok":true');
    });

    it('ends only its own connection if the message is larger or has attachments', async () => {
      // Attachments would have the server walk through it.
      const attaching = await dashboard();
      const closed = ends(attaching);
      engineOf(attaching).write(`51-/dashboard,8["devices:subscribe",{"conditions":${nested(20_000)}}]`);
      engineOf(attaching).write(Buffer.from('x'));
      await closed;
      const larger = await dashboard();
      const ended = ends(larger);
      engineOf(larger).write(`2/dashboard,7["devices:subscribe",{"conditions":${nested(40_000)}}]`);
      await ended;
    });
  });

  it('continue with a changed saved filter, and end with a deleted one', async () => {
    const [a, b] = [
      await buildDevice(app, tenant.orgId, { hostname: 'ALPHA' }),
      await buildDevice(app, tenant.orgId, { hostname: 'BETA' }),
    ];
    const named = (value: string) => all({ field: 'hostname', operator: 'equals', value });
    const filterId = await saveFilter(named('ALPHA'));
    const followed = await follow({ filterId });
    await followed.shows([a.deviceId]);
    expect((await send('PATCH', `/filters/${filterId}`, { conditions: named('BETA') })).status).to.equal(200);
    await followed.shows([b.deviceId]);
    expect(followed.client.counts?.total).to.equal(1);
    expect(followed.client.faults).to.deep.equal([]);
    expect((await send('DELETE', `/filters/${filterId}`)).status).to.equal(200);
    await eventually(
      () => followed.ended,
      (ended) => ended.length === 1,
    );
    expect(followed.ended).to.deep.equal([
      { subscriptionId: followed.id, code: 'NOT_FOUND', message: 'Filter not found' },
    ]);
    expect((await followed.watcher.send('devices:unsubscribe', { subscriptionId: followed.id })).ok).to.equal(
      true,
    );
  });

  it('follow the definition of a custom field, or end when they no longer fit it', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const rack = (operator: string, value: unknown) => all({ field: 'custom.rack', operator, value });
    const elsewhere = await buildTenant(app);
    // In a text that nobody has defined: a list in it counts as none.
    const named = await follow({ conditions: rack('contains', 'R1') });
    const foreign = await follow({ conditions: rack('contains', 'R1') }, elsewhere.admin);
    const saved = await follow({ filterId: await saveFilter(rack('notContains', 'R1')) });
    await saved.shows([deviceId]);
    const made = await send('POST', '/custom-fields', {
      orgId: tenant.orgId,
      key: 'rack',
      name: 'Rack',
      type: 'list',
    });
    expect(made.status).to.equal(201);
    // What cannot be asked of a list has an end; what can, goes on.
    await eventually(
      () => saved.ended,
      (ended) => ended.length === 1,
    );
    expect(saved.ended[0]).to.include({ subscriptionId: saved.id, code: 'VALIDATION_FAILED' });
    expect(
      (await send('PATCH', `/devices/${deviceId}`, { customFields: { rack: ['R12'] } })).status,
    ).to.equal(200);
    await named.shows([deviceId]);
    expect((await send('PATCH', `/devices/${deviceId}`, { customFields: { rack: null } })).status).to.equal(
      200,
    );
    await named.shows([]);
    expect((await send('PATCH', `/custom-fields/${made.body.id}`, { type: 'string' })).status).to.equal(200);
    expect((await send('PATCH', `/devices/${deviceId}`, { customFields: { rack: 'R13' } })).status).to.equal(
      200,
    );
    await named.shows([deviceId]);
    expect((await send('DELETE', `/custom-fields/${made.body.id}`)).status).to.equal(200);
    await named.shows([]);
    expect([named.ended, foreign.ended]).to.deep.equal([[], []]);
    expect([named.client.faults, foreign.client.frames]).to.deep.equal([[], 0]);
  });

  it('load installed software only while a filter reads it', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    await withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx.raw(`insert into software_titles (org_id, name) values (?, 'Firefox')`, [tenant.orgId]);
      await tx.raw(
        `insert into device_software (org_id, device_id, title_id) select org_id, ?, id from software_titles where org_id = ?`,
        [deviceId, tenant.orgId],
      );
    });
    const everything = await follow({ conditions: all({ field: 'hostname', operator: 'isNotNull' }) });
    await everything.shows([deviceId]);
    const with_ = (operator: string) => ({
      conditions: all({ field: 'software.installed', operator, value: 'fire' }),
    });
    const installed = await follow(with_('contains'));
    await installed.shows([deviceId]);
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx.raw('delete from device_software where device_id = ?', [deviceId]),
    );
    app.server.hub.devicesChanged([deviceId]);
    await installed.shows([]);
  });

  it('end with their connection and release the memory', async () => {
    await buildDevice(app, tenant.orgId);
    const gauge = async () => {
      const text = await (await fetch(`${app.url}/metrics`)).text();
      return [/^muster_live_filters (\d+)/m, /^muster_live_filter_devices (\d+)/m].map((line) =>
        Number(line.exec(text)?.[1]),
      );
    };
    await eventually(gauge, ([filters]) => filters === 0);
    const followed = await follow({
      orgId: tenant.orgId,
      conditions: all({ field: 'hostname', operator: 'isNotNull' }),
    });
    expect(await gauge()).to.deep.equal([1, 1]);
    followed.watcher.close();
    await eventually(gauge, (values) => values.join() === '0,0');
  });

  it('show each subscriber what the database finds, after any changes', async () => {
    const devices = await Promise.all(Array.from({ length: 8 }, () => buildDevice(app, tenant.orgId)));
    const rules = [
      all(isOnline),
      all(isBusy),
      all(hasTag('a')),
      { operator: 'OR', conditions: [hasTag('b'), isBusy] },
      all(isOnline, hasTag('a'), { ...isBusy, operator: 'lessThan' }),
      all({ field: 'tags', operator: 'isEmpty' }),
      all({ field: 'lastSeenAt', operator: 'isNotNull' }),
      all({ field: 'status', operator: 'in', value: ['maintenance', 'offline'] }),
    ];
    const followers: { rule: object; view: Awaited<ReturnType<typeof follow>> }[] = [];
    const connected = new Map<string, FakeDevice>();
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      // The low bits go round in small circles.
      return Math.floor((seed / 2_147_483_648) * below);
    };
    const step = async () => {
      const device = devices[random(devices.length)];
      if (device === undefined) return;
      const { deviceId, token } = device;
      const agent = connected.get(deviceId);
      switch (random(5)) {
        case 0:
          if (agent === undefined) connected.set(deviceId, await connect(token));
          else {
            agent.close();
            connected.delete(deviceId);
          }
          return;
        case 1:
        case 2:
          await agent?.heartbeat(metrics(random(100))).catch(() => {});
          return;
        case 3: {
          const tags = ['a', 'b', 'c'].filter(() => random(2) === 0);
          await send('PATCH', `/devices/${deviceId}`, { tags });
          return;
        }
        default:
          await send('POST', `/devices/${deviceId}/maintenance`, { enabled: random(2) === 0 });
      }
    };
    for (const rule of rules) {
      // Subscribed while things change.
      const [view] = await Promise.all([follow({ orgId: tenant.orgId, conditions: rule }), step(), step()]);
      followers.push({ rule, view });
      for (let n = 0; n < 6; n++) await step();
    }
    for (let n = 0; n < 60; n++) await step();
    // The last word is told live, and read from no record.
    for (const agent of connected.values()) await agent.heartbeat(metrics(random(100)));
    const found = async (conditions: object) => {
      const { body } = await send('POST', '/filters/preview', { conditions, limit: 100 });
      return body.data.devices.map(({ id }: DeviceSummary) => id).sort() as string[];
    };
    for (const { rule, view } of followers) {
      const [shown, expected] = await eventually(
        async () => [[...view.client.devices.keys()].sort(), await found(rule)],
        ([one, other]) => JSON.stringify(one) === JSON.stringify(other),
      );
      expect(shown).to.deep.equal(expected);
      expect(view.client.counts?.total).to.equal(expected?.length);
      expect(view.client.faults).to.deep.equal([]);
    }
  });
});
