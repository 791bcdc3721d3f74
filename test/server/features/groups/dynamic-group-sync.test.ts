import { expect } from 'chai';
import { DynamicGroupSync } from '../../../../src/features/groups/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import {
  buildDevice,
  buildOrganization,
  buildSite,
  buildTenant,
  type Person,
} from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice, graceOver } from '../../../support/fake-device.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { testClock } from '../../../support/test-clock.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

type Condition = { field: string; operator: string; value?: unknown };
const all = (...conditions: Condition[]) => ({ operator: 'AND', conditions });
const hasTag = (tag: string) => ({ field: 'tags', operator: 'hasAny', value: [tag] });
const inGroup = (id: string) => ({ field: 'groupId', operator: 'equals', value: id });

const RETRY_MS = 5000;

describe('dynamic groups', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const send = (method: string, path: string, body?: unknown, person: Person = tenant.admin) =>
    app.call(method, path, { token: person.token, ...(body === undefined ? {} : { body }) });
  const saveFilter = async (conditions: object, orgId = tenant.orgId, person?: Person): Promise<string> => {
    const answer = await send('POST', '/filters', { orgId, name: `F ${newId()}`, conditions }, person);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return answer.body.id;
  };
  const make = (filterId: unknown, more: object = {}) =>
    send('POST', '/groups', {
      orgId: tenant.orgId,
      name: `G ${newId()}`,
      type: 'dynamic',
      filterId,
      ...more,
    });
  const makeGroup = async (conditions: object) => {
    const filterId = await saveFilter(conditions);
    const answer = await make(filterId);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return { id: answer.body.id as string, filterId, deviceCount: answer.body.deviceCount as number };
  };
  const members = async (id: string): Promise<string[]> =>
    (await send('GET', `/devices?groupId=${id}`)).body.data.map((device: { id: string }) => device.id).sort();
  /** @param syncs  what follows the changes: by default the server */
  const becomes = async (id: string, expected: string[], syncs: { settle(): Promise<void> }[] = [app]) => {
    await Promise.all(syncs.map((sync) => sync.settle()));
    expect(await members(id)).to.deep.equal([...expected].sort());
  };
  const changes = async (id: string) =>
    (await send('GET', `/groups/${id}/changes`)).body.data.map(
      (one: { change: string; reason: string; device: { id: string }; by: string | null }) =>
        `${one.change} ${one.reason} ${one.by === null ? 'by nobody' : 'by a person'}`,
    );
  const tag = async (deviceId: string, ...tags: string[]) => {
    expect((await send('PATCH', `/devices/${deviceId}`, { tags })).status).to.equal(200);
  };

  it('contain what their filter finds, initially and as devices change, and record the reasons', async () => {
    const [a, b] = [await buildDevice(app, tenant.orgId), await buildDevice(app, tenant.orgId)];
    await tag(a.deviceId, 'till');
    const group = await makeGroup(all(hasTag('till')));
    expect(group.deviceCount).to.equal(1);
    expect(await members(group.id)).to.deep.equal([a.deviceId]);
    await tag(b.deviceId, 'till');
    await becomes(group.id, [a.deviceId, b.deviceId]);
    await tag(a.deviceId);
    await becomes(group.id, [b.deviceId]);
    expect(await changes(group.id)).to.deep.equal([
      'left filter_unmatch by nobody',
      'joined filter_match by nobody',
      'joined group_created by a person',
    ]);
    const { body } = await send('GET', `/groups/${group.id}/changes?deviceId=${b.deviceId}&limit=1`);
    expect(body.pagination).to.deep.equal({ page: 1, limit: 1, total: 1 });
    expect(body.data[0].device.id).to.equal(b.deviceId);
    expect((await send('GET', `/devices/${b.deviceId}`)).body.groupIds).to.deep.equal([group.id]);
  });

  it('follow presence and metrics', async () => {
    const { deviceId, token } = await buildDevice(app, tenant.orgId);
    const online = await makeGroup(all({ field: 'status', operator: 'equals', value: 'online' }));
    const busy = await makeGroup(all({ field: 'metrics.cpuPercent', operator: 'greaterThan', value: 80 }));
    const agent = await connectDevice(app, token);
    await agent.heartbeat({ metrics: { cpuPercent: 95, ramPercent: 1, diskPercent: 1 } });
    await becomes(online.id, [deviceId]);
    await becomes(busy.id, [deviceId]);
    agent.close();
    await graceOver(app, deviceId);
    await becomes(online.id, []);
  });

  it('update live filters and other groups that depend on them', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const inner = await makeGroup(all(hasTag('till')));
    const outer = await makeGroup(all(inGroup(inner.id)));
    const watcher = await connectDashboard(app, tenant.admin.token);
    await watcher.subscribe({ conditions: all(inGroup(outer.id)) });
    await tag(deviceId, 'till');
    await becomes(outer.id, [deviceId]);
    await eventually(
      () => watcher.deltas.flatMap(({ entered }) => entered.map(({ id }) => id)),
      (ids) => ids.join() === deviceId,
    );
    await tag(deviceId);
    await becomes(outer.id, []);
    await eventually(
      () => watcher.deltas.flatMap(({ left }) => left),
      (ids) => ids.join() === deviceId,
    );
    watcher.close();
  });

  it('follow changes and replacement of their filter, and prevent its deletion', async () => {
    const [a, b] = [await buildDevice(app, tenant.orgId), await buildDevice(app, tenant.orgId)];
    await tag(a.deviceId, 'one');
    await tag(b.deviceId, 'two');
    const group = await makeGroup(all(hasTag('one')));
    // What the devices have changed is compared before the filter is: its changes have another reason.
    await app.settle();
    expect(
      (await send('PATCH', `/filters/${group.filterId}`, { conditions: all(hasTag('two')) })).status,
    ).to.equal(200);
    await becomes(group.id, [b.deviceId]);
    expect(await changes(group.id)).to.have.members([
      'left filter_changed by nobody',
      'joined filter_changed by nobody',
      'joined group_created by a person',
    ]);
    const other = await saveFilter(all(hasTag('one')));
    expect((await send('PATCH', `/groups/${group.id}`, { filterId: other })).body).to.deep.include({
      filterId: other,
      type: 'dynamic',
      deviceCount: 1,
    });
    expect(await members(group.id)).to.deep.equal([a.deviceId]);
    const usage = await send('GET', `/filters/${other}/usage`);
    expect(usage.body.data.map(({ kind, id }: { kind: string; id: string }) => [kind, id])).to.deep.equal([
      ['group', group.id],
    ]);
    const kept = await send('DELETE', `/filters/${other}`);
    expect([kept.status, kept.body.details[0].id]).to.deep.equal([409, group.id]);
    // A static one keeps whom it has, and lets its filter go.
    expect((await send('PATCH', `/groups/${group.id}`, { type: 'static' })).body).to.deep.include({
      type: 'static',
      filterId: null,
      deviceCount: 1,
    });
    expect((await send('DELETE', `/filters/${other}`)).status).to.equal(200);
    expect(
      (await send('POST', `/groups/${group.id}/devices`, { deviceIds: [b.deviceId] })).body.added,
    ).to.equal(1);
    expect(
      (await send('PATCH', `/groups/${group.id}`, { type: 'dynamic', filterId: group.filterId })).body
        .deviceCount,
    ).to.equal(1);
    expect(await members(group.id)).to.deep.equal([b.deviceId]);
  });

  it('record a changed filter as the reason even if a changed device was about to be examined', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const group = await makeGroup(all(hasTag('one')));
    let settling: Promise<void> | undefined;
    await withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx('device_groups').where({ id: group.id }).forUpdate();
      await tag(deviceId, 'two');
      settling = app.settle();
      await eventually(
        () =>
          asOwner(
            app.database.ownerUrl,
            `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
          ),
        ({ length }) => length === 1,
      );
      const changed = await send('PATCH', `/filters/${group.filterId}`, { conditions: all(hasTag('two')) });
      expect(changed.status).to.equal(200);
    });
    await settling;
    await becomes(group.id, [deviceId]);
    expect(await changes(group.id)).to.deep.equal(['joined filter_changed by nobody']);
  });

  it('follow changes in the definition of a custom field', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    // Of nobody's type: as a text, which it is taken for, it counts as none.
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx.raw(`update devices set custom_fields = '{"rack": ["R12"]}' where id = ?`, [deviceId]),
    );
    const group = await makeGroup(all({ field: 'custom.rack', operator: 'contains', value: 'R1' }));
    expect(await members(group.id)).to.deep.equal([]);
    const defined = await send('POST', '/custom-fields', {
      orgId: tenant.orgId,
      key: 'rack',
      name: 'Rack',
      type: 'list',
    });
    await becomes(group.id, [deviceId]);
    expect(await changes(group.id)).to.deep.equal(['joined filter_match by nobody']);
    expect((await send('DELETE', `/custom-fields/${defined.body.id}`)).status).to.equal(200);
    await becomes(group.id, []);
  });

  it('reject manual members, and filters of other organizations', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const group = await makeGroup(all(hasTag('till')));
    for (const path of ['devices', 'devices/remove']) {
      const refused = await send('POST', `/groups/${group.id}/${path}`, { deviceIds: [deviceId] });
      expect([refused.status, refused.body.code], path).to.deep.equal([409, 'CONFLICT']);
    }
    const elsewhere = await saveFilter(all(hasTag('a')), await buildOrganization(app, tenant.partnerId));
    const stranger = await buildTenant(app);
    const foreign = await saveFilter(all(hasTag('a')), stranger.orgId, stranger.admin);
    for (const filterId of [elsewhere, foreign, newId(), null, undefined]) {
      const refused = await make(filterId);
      expect([refused.status, refused.body.details?.[0]?.path]).to.deep.equal([400, 'body.filterId']);
    }
    expect((await make(group.filterId, { type: 'static' })).status).to.equal(400);
    expect((await make(group.filterId, { deviceIds: [deviceId] })).status).to.equal(400);
    expect((await send('PATCH', `/groups/${group.id}`, { filterId: null })).status).to.equal(400);
  });

  it('read their filter once when they are created or get another one', async () => {
    const one = await saveFilter(all(hasTag('till')));
    const other = await saveFilter(all(hasTag('kiosk')));
    const conditionReads = async (work: () => Promise<void>) => {
      const sent = await sentStatements(['muster'], work);
      return sent.filter((text) => /saved_filters/.test(text) && !/like/.test(text)).length;
    };
    let id = '';
    const created = await conditionReads(async () => void (id = (await make(one)).body.id));
    expect(id).to.be.a('string');
    expect(created).to.equal(1);
    const changed = await conditionReads(
      async () =>
        void expect((await send('PATCH', `/groups/${id}`, { filterId: other })).status).to.equal(200),
    );
    expect(changed).to.equal(1);
  });

  it('must not depend on themselves', async () => {
    const one = await makeGroup(all(hasTag('a')));
    const two = await makeGroup(all(inGroup(one.id)));
    const three = await makeGroup(all(hasTag('b'), inGroup(two.id)));
    const circle = await send('PATCH', `/filters/${one.filterId}`, { conditions: all(inGroup(three.id)) });
    expect(circle.status).to.equal(409);
    expect(circle.body.details.map(({ id }: { id: string }) => id)).to.include.members([
      one.id,
      two.id,
      three.id,
    ]);
    const itself = await send('PATCH', `/groups/${one.id}`, {
      filterId: await saveFilter(all(inGroup(one.id))),
    });
    expect([itself.status, itself.body.details.length]).to.deep.equal([409, 1]);
    // To be in no group is to be in none of these.
    const none = await make(await saveFilter(all({ field: 'groupId', operator: 'isNull' })));
    expect(none.status).to.equal(409);
    expect((await send('GET', `/groups/${one.id}`)).body.filterId).to.equal(one.filterId);
  });

  it('lose devices that move away or are decommissioned, and regain them', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    await tag(deviceId, 'till');
    const group = await makeGroup(all(hasTag('till')));
    expect((await send('DELETE', `/devices/${deviceId}`)).status).to.equal(200);
    await app.settle();
    expect((await changes(group.id))[0]).to.equal('left device_decommissioned by nobody');
    expect((await send('POST', `/devices/${deviceId}/restore`)).status).to.equal(200);
    await becomes(group.id, [deviceId]);
    const orgId = await buildOrganization(app, tenant.partnerId);
    const siteId = await buildSite(app, orgId);
    const moved = await send('POST', `/devices/${deviceId}/move`, { orgId, siteId });
    expect(moved.status, JSON.stringify(moved.body)).to.equal(200);
    expect((await changes(group.id))[0]).to.equal('left device_moved by a person');
    expect(await members(group.id)).to.deep.equal([]);
  });

  it('are reconciled in full after missed changes, once whatever the number of nodes', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const group = await makeGroup(all(hasTag('till')));
    // Past the server.
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx.raw(`update devices set tags = '{till}' where id = ?`, [deviceId]),
    );
    const told: string[] = [];
    const nodes = Array.from(
      { length: 3 },
      () =>
        new DynamicGroupSync({
          db: app.server.database.hubPool,
          hub: { devicesChanged: (ids) => void told.push(...ids) },
          log: quietLog,
          checkMs: 200,
          collectMs: 10,
        }),
    );
    for (const node of nodes) node.start();
    await becomes(group.id, [deviceId], nodes);
    // All at once, and against each other.
    for (let n = 0; n < 20; n++) {
      await withSystem(app.server.database.pool, 'test', (tx) =>
        tx.raw(`update devices set tags = ? where id = ?`, [n % 2 === 0 ? '{}' : '{till}', deviceId]),
      );
      for (const node of nodes) node.touched([deviceId], 'recorded');
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    await becomes(group.id, [deviceId], nodes);
    for (const node of nodes) await node.close();
    const noted = (await changes(group.id)).map((line: string) => line.split(' ')[0]).reverse();
    // In turn: nothing twice.
    expect(noted).to.deep.equal(
      noted.map((_: string, index: number) => (index % 2 === 0 ? 'joined' : 'left')),
    );
    expect(told.filter((id) => id === deviceId).length).to.be.at.most(noted.length);
  });

  it('follow time conditions', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const group = await makeGroup(
      all({ field: 'enrolledAt', operator: 'withinLast', value: { amount: 1, unit: 'hours' } }),
    );
    expect(await members(group.id)).to.deep.equal([deviceId]);
    await withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx.raw(`update devices set enrolled_at = now() - interval '2 hours' where id = ?`, [deviceId]);
      await tx.raw(`update device_groups set evaluated_at = now() - interval '61 seconds' where id = ?`, [
        group.id,
      ]);
    });
    const node = new DynamicGroupSync({
      db: app.server.database.hubPool,
      hub: app.server.hub,
      log: quietLog,
    });
    await becomes(group.id, [], [node]);
    await node.close();
  });

  it('are not affected by an unreadable filter of another tenant, which is retried until it is corrected', async () => {
    const stranger = await buildTenant(app);
    const damaged = await makeGroup(all(hasTag('till')));
    const filterId = await saveFilter(all(hasTag('till')), stranger.orgId, stranger.admin);
    const { body: group } = await send(
      'POST',
      '/groups',
      { orgId: stranger.orgId, name: 'Tills', type: 'dynamic', filterId },
      stranger.admin,
    );
    const { deviceId: mine } = await buildDevice(app, tenant.orgId);
    const { deviceId: theirs } = await buildDevice(app, stranger.orgId);
    const { conditions } = (await send('GET', `/filters/${damaged.filterId}`)).body;
    const store = (text: string) =>
      withSystem(app.server.database.pool, 'test', (tx) =>
        tx.raw('update saved_filters set conditions = ?, updated_at = now() where id = ?', [
          text,
          damaged.filterId,
        ]),
      );
    await store('{');
    const node = new DynamicGroupSync({
      db: app.server.database.hubPool,
      hub: { devicesChanged: () => {} },
      log: quietLog,
      retryMs: RETRY_MS,
    });
    const membersOf = async (id: string) =>
      (await app.call('GET', `/devices?groupId=${id}`, { token: stranger.admin.token })).body.data.map(
        (device: { id: string }) => device.id,
      );
    try {
      await withSystem(app.server.database.pool, 'test', (tx) =>
        tx.raw(`update devices set tags = '{till}' where id = any(?::uuid[])`, [[mine, theirs]]),
      );
      node.touched([mine, theirs], 'recorded');
      await node.settle();
      expect(await membersOf(group.id)).to.include(theirs);
      expect(node.failing()).to.equal(1);
      await store(JSON.stringify(conditions));
      await testClock.advance(RETRY_MS);
      await becomes(damaged.id, [mine], [node]);
      expect(node.failing()).to.equal(0);
    } finally {
      await node.close();
    }
  });
});
