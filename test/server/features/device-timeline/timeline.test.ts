import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, buildPerson, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import { raisedAlert } from '../../../support/raised-alert.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

interface Entry {
  id: string;
  kind: string;
  at: string;
  endedAt: string | null;
  by: { id: string | null; name: string } | null;
  [field: string]: unknown;
}

describe('the timeline of a device', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  const HOUR = 3_600_000;
  const start = Date.now() - 20 * HOUR;
  /** Hours after the beginning, as they are stored. */
  const hour = (hours: number) => new Date(start + hours * HOUR);

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    await fill(device);
  });
  after(async () => app.close());

  const inSystem = <T>(work: Parameters<typeof withSystem<T>>[2]) =>
    withSystem(app.server.database.pool, 'test', work);
  const read = async (query = '', { token } = tenant.admin, id = device.deviceId) => {
    const { status, body } = await app.call('GET', `/devices/${id}/timeline${query}`, { token });
    return { status, body, data: (body.data ?? []) as Entry[] };
  };

  const nameOf = async ({ token }: { token: string }) =>
    (await app.call('GET', '/users/me', { token })).body.name as string;

  /** One entry of each kind that other parts of the server write, an hour apart. */
  async function fill({ deviceId, orgId }: EnrolledDevice): Promise<void> {
    const about = { org_id: orgId, device_id: deviceId };
    const { id: userId } = tenant.technician;
    await inSystem(async (tx) => {
      await tx('presence_changes').insert([
        { ...about, at: hour(1), state: 'connected', reason: 'connected' },
        { ...about, at: hour(2), state: 'disconnected', reason: 'socket_closed' },
      ]);
      const alertId = await raisedAlert(tx, {
        orgId,
        deviceId,
        kind: 'disk_full',
        severity: 'high',
        title: 'Drive C: is full',
        message: 'There is no room.',
      });
      await tx('alerts')
        .where({ id: alertId })
        .update({ raised_at: hour(3), status: 'resolved', resolved_at: hour(4), resolved_by: userId });
      const command = {
        ...about,
        payload: '{}',
        timeout_seconds: 60,
        status: 'succeeded',
        created_by: userId,
        created_at: hour(5),
        expires_at: hour(29),
        finished_at: hour(6),
      };
      const workId = newId();
      await tx('commands').insert([
        { ...command, id: newId(), type: 'inventory.refresh' },
        { ...command, id: newId(), type: 'backup.run', work_id: workId },
      ]);
      await tx('work').insert({
        id: workId,
        kind: 'backup',
        partner_id: tenant.partnerId,
        ...about,
        input: '{}',
        status: 'failed',
        error_message: 'The disk of the store is full.',
        stage: 'ended',
        step: 'run',
        created_by: userId,
        created_at: hour(7),
        started_at: hour(7),
        finished_at: hour(8),
        deadline_at: hour(20),
      });
      const id = newId();
      await tx('device_upgrades').insert({
        id,
        ...about,
        component: 'agent',
        attempt_id: id,
        from_version: '1.0.0',
        target_version: '1.1.0',
        state: 'rolled_back',
        error: 'It did not connect.',
        started_at: hour(9),
        finished_at: hour(10),
      });
      const change = { ...about, at: hour(11) };
      await tx('software_changes').insert([
        { ...change, change: 'installed', name: 'Firefox', version: '144' },
        { ...change, change: 'updated', name: 'Acrobat', version: '25', previous_version: '24' },
        { ...change, change: 'removed', name: 'Zoom', version: '6' },
      ]);
      await tx('terminals').insert({
        id: newId(),
        ...about,
        opened_in: orgId,
        user_name: 'Gone Person',
        user_email: 'gone@example.com',
        resume_token_hash: 'hash',
        cols: 80,
        rows: 24,
        sealed_key: 'sealed',
        opened_at: hour(12),
        ended_at: hour(13),
        end_reason: 'closed',
      });
    });
    const group = await app.call('POST', '/groups', {
      token: tenant.admin.token,
      body: { orgId, name: 'Counter', type: 'static' },
    });
    for (const path of ['devices', 'devices/remove']) {
      const { status } = await app.call('POST', `/groups/${group.body.id}/${path}`, {
        token: tenant.admin.token,
        body: { deviceIds: [deviceId] },
      });
      expect(status).to.equal(200);
    }
    await app.call('PATCH', `/devices/${deviceId}`, {
      token: tenant.admin.token,
      body: { displayName: 'Front desk' },
    });
    await app.call('POST', `/devices/${deviceId}/notes`, {
      token: tenant.admin.token,
      body: { text: 'The owner switches it off on Fridays.' },
    });
    // An entry of the trail is sealed within a second.
    await eventually(
      async () => (await read('?kinds=change')).data,
      (data) => data.length > 0,
    );
  }

  it('has what each part of the server knows, newest first, and what lasts by its beginning', async () => {
    const { data, body } = await read('?kinds=presence,alert,command,backup,upgrade,software,terminal');
    expect(data.map(({ kind }) => kind)).to.deep.equal([
      'terminal',
      'software',
      'upgrade',
      'backup',
      'command',
      'alert',
      'presence',
      'presence',
    ]);
    const [terminal, software, upgrade, backup, command, alert, lost] = data;
    const person = { id: tenant.technician.id, name: await nameOf(tenant.technician) };
    expect(terminal).to.deep.include({ by: { id: null, name: 'Gone Person' }, reason: 'closed' });
    expect(software).to.deep.include({
      installed: 1,
      updated: 1,
      removed: 1,
      names: ['Acrobat', 'Firefox', 'Zoom'],
      by: null,
    });
    expect(upgrade).to.include({ component: 'agent', toVersion: '1.1.0', state: 'rolled_back' });
    expect(backup).to.deep.include({
      task: 'backup',
      status: 'failed',
      error: 'The disk of the store is full.',
      at: hour(7).toISOString(),
      endedAt: hour(8).toISOString(),
      by: person,
    });
    // The command that the backup has given to the device is not listed beside it.
    expect(command).to.deep.include({ type: 'inventory.refresh', status: 'succeeded', by: person });
    expect(alert).to.deep.include({
      title: 'Drive C: is full',
      severity: 'high',
      status: 'resolved',
      by: person,
    });
    expect(lost).to.include({ state: 'disconnected', reason: 'socket_closed' });
    expect(body).to.deep.include({ next: null, hidden: [] });
  });

  it('has the groups that the device has joined and left', async () => {
    const { data } = await read('?kinds=group');
    const admin = { id: tenant.admin.id, name: await nameOf(tenant.admin) };
    expect(
      data.map(({ change, reason, groupName, by }) => ({ change, reason, groupName, by })),
    ).to.deep.equal(
      ['left', 'joined'].map((change) => ({ change, reason: 'manual', groupName: 'Counter', by: admin })),
    );
  });

  it('has changes of the device by people, and notes', async () => {
    const { data } = await read('?kinds=change,note');
    expect(data.map(({ kind }) => kind)).to.deep.equal(['note', 'change']);
    expect(data[0]).to.deep.include({ text: 'The owner switches it off on Fridays.', isPinned: false });
    expect(data[1]).to.deep.include({
      action: 'device.update',
      result: 'success',
      fields: ['displayName'],
      by: { id: tenant.admin.id, name: await nameOf(tenant.admin) },
    });
  });

  it('is read page by page without a gap or a repetition, also where many things happened at once', async () => {
    const busy = await buildDevice(app, tenant.orgId);
    const about = { org_id: busy.orgId, device_id: busy.deviceId };
    await inSystem(async (tx) => {
      const at = hour(5);
      const commands = Array.from({ length: 7 }, () => ({
        id: newId(),
        ...about,
        type: 'inventory.refresh',
        payload: '{}',
        timeout_seconds: 60,
        created_at: at,
        expires_at: hour(29),
      }));
      await tx('commands').insert(commands);
      await tx('presence_changes').insert({ ...about, at, state: 'connected', reason: 'connected' });
      await tx('software_changes').insert({ ...about, at, change: 'installed', name: 'Firefox' });
    });
    const whole = (await read('', tenant.admin, busy.deviceId)).data.map(({ kind, id }) => `${kind} ${id}`);
    expect(whole).to.have.length(9);
    const paged: string[] = [];
    let next: string | null = '';
    for (let page = 0; next !== null && page < 20; page += 1) {
      const { data, body } = await read(`?limit=2${next && `&before=${next}`}`, tenant.admin, busy.deviceId);
      expect(data.length).to.be.at.most(2);
      paged.push(...data.map(({ kind, id }) => `${kind} ${id}`));
      next = body.next;
    }
    expect(paged).to.deep.equal(whole);
  });

  it('leaves out an entry that only another release knows, and shows the others', async () => {
    const { deviceId, orgId } = await buildDevice(app, tenant.orgId);
    const of = (hours: number, reason: string) => ({
      org_id: orgId,
      device_id: deviceId,
      at: hour(hours),
      state: 'disconnected',
      reason,
    });
    await inSystem((tx) =>
      tx('presence_changes').insert([
        of(1, 'socket_closed'),
        of(2, 'of_a_later_release'),
        of(3, 'node_lost'),
      ]),
    );
    const { status, data } = await read('', tenant.admin, deviceId);
    expect([status, data.map(({ reason }) => reason)]).to.deep.equal([200, ['node_lost', 'socket_closed']]);
  });

  it('leaves out what the caller may not read, and says so', async () => {
    const { body: role } = await app.call('POST', '/roles', {
      token: tenant.admin.token,
      body: { name: 'Front desk', scope: 'partner', permissions: ['devices:read', 'alerts:read'] },
    });
    const { partnerId } = tenant;
    const viewer = await buildPerson(app, { scope: 'partner', partnerId, role: role.id });
    const { data, body } = await read('', viewer);
    expect(body.hidden).to.deep.equal(['backup', 'terminal', 'change']);
    expect(new Set(data.map(({ kind }) => kind))).to.deep.equal(
      new Set(['note', 'group', 'software', 'upgrade', 'command', 'alert', 'presence']),
    );
    // Also where it is asked for by name.
    expect((await read('?kinds=change,terminal', viewer)).data).to.deep.equal([]);
  });

  it('is not there for another tenant, and refuses nonsense with the name of the field', async () => {
    const stranger = await buildTenant(app);
    expect((await read('', stranger.admin)).status).to.equal(404);
    const otherOrganization = await buildPerson(app, {
      scope: 'organization',
      orgId: stranger.orgId,
      role: SYSTEM_ROLES.organizationAdmin,
    });
    expect((await read('', otherOrganization)).status).to.equal(404);
    for (const query of [
      '?kinds=everything',
      '?before=yesterday',
      `?before=${'9'.repeat(16)}.note.x`,
      "?before=1.note.'--",
      `?before=${'x'.repeat(100_000)}`,
    ]) {
      const { status, body } = await read(query);
      expect(status, query.slice(0, 40)).to.be.oneOf([400, 431]);
      if (status === 400) expect(JSON.stringify(body)).to.match(/query\.(kinds|before)/);
    }
    // A place of an entry that is gone, or that never was, is a place like others.
    expect((await read(`?before=${hour(8).getTime()}.zzz.nothing`)).data[0]).to.include({ kind: 'backup' });
  });
});
