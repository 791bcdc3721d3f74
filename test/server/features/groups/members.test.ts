import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, buildOrganization, buildSite, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the devices of a group', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let a: string;
  let b: string;
  let c: string;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    [a, b, c] = (await Promise.all(
      ['a', 'b', 'c'].map(async (hostname) => (await buildDevice(app, tenant.orgId, { hostname })).deviceId),
    )) as [string, string, string];
  });

  const send = (method: string, path: string, body?: unknown) =>
    app.call(method, path, { token: tenant.admin.token, ...(body === undefined ? {} : { body }) });
  async function group(deviceIds: string[] = []): Promise<string> {
    const answer = await send('POST', '/groups', {
      orgId: tenant.orgId,
      name: `Group ${newId()}`,
      deviceIds,
    });
    expect(answer.status).to.equal(201);
    expect(answer.body.deviceCount).to.equal(new Set(deviceIds).size);
    return answer.body.id;
  }
  const add = (id: string, ...deviceIds: string[]) => send('POST', `/groups/${id}/devices`, { deviceIds });
  const remove = (id: string, ...deviceIds: string[]) =>
    send('POST', `/groups/${id}/devices/remove`, { deviceIds });
  const listed = async (path: string): Promise<string[]> =>
    (await send('GET', path)).body.data.map(({ id }: { id: string }) => id);
  const inDatabase = (sql: string, values: readonly (string | string[])[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values as string[]));
  const memberNotes = async (id: string) => {
    await app.server.chainWriter.flush();
    return (
      await inDatabase(
        `select org_id, details from audit_logs where resource_id = ? and action = 'group.members.update' order by id`,
        [id],
      )
    ).rows;
  };

  it('are added once, however often they are named, and taken out, each step noted with its number', async () => {
    const id = await group([a, a]);
    expect((await add(id, a, b, b.toUpperCase())).body).to.deep.equal({ added: 1, total: 2 });
    expect((await add(id, a, b)).body).to.deep.equal({ added: 0, total: 2 });
    expect((await add(id, c)).body).to.deep.equal({ added: 1, total: 3 });
    expect(await listed(`/groups/${id}/devices`)).to.deep.equal([a, b, c]);
    expect((await remove(id, a, a, newId())).body).to.deep.equal({ removed: 1, total: 2 });
    expect((await remove(id, a)).body).to.deep.equal({ removed: 0, total: 2 });
    expect(await listed(`/groups/${id}/devices`)).to.deep.equal([b, c]);
    expect((await send('GET', `/groups/${id}`)).body.deviceCount).to.equal(2);
    const { rows } = await inDatabase(
      'select distinct org_id, added_by from device_group_members where group_id = ?',
      [id],
    );
    expect(rows).to.deep.equal([{ org_id: tenant.orgId, added_by: tenant.admin.id }]);
    expect(await memberNotes(id)).to.deep.equal(
      [
        { added: 1, before: { deviceCount: 1 }, after: { deviceCount: 2 } },
        { added: 0, before: {}, after: {} },
        { added: 1, before: { deviceCount: 2 }, after: { deviceCount: 3 } },
        { removed: 1, before: { deviceCount: 3 }, after: { deviceCount: 2 } },
        { removed: 0, before: {}, after: {} },
      ].map((details) => ({
        org_id: tenant.orgId,
        details,
      })),
    );
  });

  it('are of its organization: others are named one by one, and then none is added', async () => {
    const sibling = await buildDevice(app, await siblingOrganization());
    const stranger = await buildTenant(app);
    const foreign = await buildDevice(app, stranger.orgId);
    const gone = await buildDevice(app, tenant.orgId);
    await send('DELETE', `/devices/${gone.deviceId}`);
    const id = await group();
    const deviceIds = [a, sibling.deviceId, b, foreign.deviceId, newId(), gone.deviceId, foreign.deviceId];
    const name = `Refused ${newId()}`;
    for (const answer of [
      await add(id, ...deviceIds),
      await send('POST', '/groups', { orgId: tenant.orgId, name, deviceIds }),
    ]) {
      const message = 'must be a device of the organization';
      expect([answer.status, answer.body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
      expect(answer.body.error).to.equal(`body.deviceIds.1: ${message}`);
      expect(answer.body.details).to.deep.equal(
        [1, 3, 4, 5, 6].map((position) => ({ path: `body.deviceIds.${position}`, message })),
      );
    }
    expect(await listed(`/groups/${id}/devices`)).to.deep.equal([]);
    expect(await listed(`/groups?search=${encodeURIComponent(name)}`)).to.deep.equal([]);
    expect(await memberNotes(id)).to.deep.equal([]);
  });

  const siblingOrganization = async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    await buildSite(app, orgId);
    return orgId;
  };

  it('are named from 1 to 1000 at once', async () => {
    const id = await group();
    for (const path of ['devices', 'devices/remove']) {
      for (const deviceIds of [[], Array.from({ length: 1001 }, newId), undefined, ['x']]) {
        const { status, body } = await send('POST', `/groups/${id}/${path}`, { deviceIds });
        expect([status, body.details[0].path.split('.')[1]]).to.deep.equal([400, 'deviceIds']);
      }
      const most = await send('POST', `/groups/${id}/${path}`, {
        deviceIds: Array.from({ length: 1000 }, newId),
      });
      expect([most.status, most.body.details?.length]).to.deep.equal(
        path === 'devices' ? [400, 1000] : [200, undefined],
      );
    }
  });

  it('are added and taken out by many at once, and each counts once', async () => {
    const id = await group();
    const orders = [
      [a, b, c],
      [c, b, a],
      [b, c, a],
      [a, c, b],
    ];
    const adds = await Promise.all([...orders, ...orders].map((order) => add(id, ...order)));
    expect(adds.map(({ status }) => status)).to.deep.equal(adds.map(() => 200));
    expect(adds.map(({ body }) => body.added)).to.have.members([0, 0, 0, 0, 0, 0, 0, 3]);
    expect(adds.map(({ body }) => body.total)).to.deep.equal(adds.map(() => 3));

    const removals = await Promise.all([...orders, ...orders].map((order) => remove(id, ...order)));
    expect(removals.map(({ body }) => body.removed)).to.have.members([0, 0, 0, 0, 0, 0, 0, 3]);
    expect(removals.map(({ body }) => body.total)).to.deep.equal(removals.map(() => 0));

    const mixed = await Promise.all([
      ...orders.flatMap((order) => [add(id, ...order), remove(id, ...order)]),
      send('DELETE', `/groups/${id}`),
    ]);
    for (const { status } of mixed) expect(status).to.be.oneOf([200, 404]);
    const { rows } = await inDatabase('select from device_group_members where group_id = ?', [id]);
    expect(rows).to.deep.equal([]);
  });

  it('show the groups that they are in, and are found by them', async () => {
    const first = await group([a, b]);
    const second = await group([b]);
    const groupsOf = async (id: string) => (await send('GET', `/devices/${id}`)).body.groupIds;
    expect([await groupsOf(a), await groupsOf(b), await groupsOf(c)]).to.deep.equal([
      [first],
      [first, second],
      [],
    ]);
    const list = await send('GET', `/devices?orgId=${tenant.orgId}`);
    expect(
      list.body.data.map(({ id, groupIds }: { id: string; groupIds: string[] }) => [id, groupIds]),
    ).to.deep.equal([
      [a, [first]],
      [b, [first, second]],
      [c, []],
    ]);
    const filtered = await send('GET', `/devices?groupId=${first}&limit=1&page=2`);
    expect([filtered.body.data.length, filtered.body.pagination.total]).to.deep.equal([1, 2]);
    expect(filtered.body.data[0]).to.deep.include({ id: b, groupIds: [first, second] });
    expect(await listed(`/devices?groupId=${second}`)).to.deep.equal([b]);
    expect(await listed(`/devices?groupId=${newId()}`)).to.deep.equal([]);
  });

  it('are listed as devices are elsewhere', async () => {
    const id = await group([a, b, c]);
    expect((await send('GET', `/groups/${id}/devices`)).body).to.deep.equal(
      (await send('GET', `/devices?groupId=${id}`)).body,
    );
    expect(await listed(`/groups/${id}/devices?order=desc&limit=2`)).to.deep.equal([c, b]);
    expect(await listed(`/groups/${id}/devices?search=B`)).to.deep.equal([b]);
    expect(await listed(`/groups/${id}/devices?siteId=${newId()}`)).to.deep.equal([]);
  });

  it('stay when the group is deleted', async () => {
    const id = await group([a, b]);
    const kept = await group([a]);
    expect((await send('DELETE', `/groups/${id}`)).status).to.equal(200);
    expect(await listed(`/devices?orgId=${tenant.orgId}`)).to.deep.equal([a, b, c]);
    expect((await send('GET', `/devices/${a}`)).body.groupIds).to.deep.equal([kept]);
  });

  it('are neither listed nor counted while out of service, and are in the group when they come back', async () => {
    const machine = { hostname: 'd', machineId: newId() };
    const { deviceId } = await buildDevice(app, tenant.orgId, machine);
    const id = await group([a, deviceId]);
    await send('DELETE', `/devices/${deviceId}`);
    expect((await send('GET', `/groups/${id}`)).body.deviceCount).to.equal(1);
    expect((await add(id, b)).body).to.deep.equal({ added: 1, total: 2 });
    expect(await listed(`/groups/${id}/devices`)).to.deep.equal([a, b]);
    expect((await buildDevice(app, tenant.orgId, machine)).deviceId).to.equal(deviceId);
    expect((await send('GET', `/devices/${deviceId}`)).body.groupIds).to.deep.equal([id]);
    expect((await send('GET', `/groups/${id}`)).body.deviceCount).to.equal(3);
  });

  it('leave it with their record', async () => {
    const id = await group([a, b]);
    await inDatabase('delete from devices where id = ?', [a]);
    expect((await send('GET', `/groups/${id}`)).body.deviceCount).to.equal(1);
    expect(await listed(`/groups/${id}/devices`)).to.deep.equal([b]);
  });

  it('are held to its organization by the database as well', async () => {
    const sibling = await buildDevice(app, await siblingOrganization());
    const id = await group();
    const insert = (orgId: string) =>
      inDatabase('insert into device_group_members (group_id, device_id, org_id) values (?, ?, ?)', [
        id,
        sibling.deviceId,
        orgId,
      ]).then(
        () => 'inserted',
        (error: { code: string }) => error.code,
      );
    expect([await insert(tenant.orgId), await insert(sibling.orgId)]).to.deep.equal(['23503', '23503']);
  });
});
