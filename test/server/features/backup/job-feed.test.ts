import { expect } from 'chai';
import {
  type CommandFrame,
  type JobsSnapshot,
  type JobUpdate,
  COMMAND_TYPES,
  SECRETS_CAPABILITY,
} from '../../../../src/protocol/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import { insertRestore } from '../../../support/backup/restore-rows.ts';

interface Follower {
  updates: JobUpdate[];
  follow(filter?: object): Promise<JobsSnapshot & { error?: { code: string } }>;
}

describe('long work on the dashboard', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let configId: string;
  let enrolled: EnrolledDevice;
  let device: FakeDevice | undefined;
  let clients: DashboardClient[];

  before(async () => {
    app = await createTestApp();
    tenant = await buildBackupTenant(app);
    configId = (await tenant.createConfig()).id;
  });
  after(async () => app?.close());
  beforeEach(async () => {
    clients = [];
    enrolled = await buildDevice(app, tenant.orgId);
    await inSystem(app, async (tx) => {
      // A repository that is there already, so that no engine is needed.
      await tx.raw(
        `insert into backup_repositories (id, org_id, device_id, config_id, encryption_key_id, key_version, initialized_at)
        values (new_row_id(), ?, ?, ?, ?, 1, now())`,
        [tenant.orgId, enrolled.deviceId, configId, tenant.keyId],
      );
      await tx('devices')
        .where({ id: enrolled.deviceId })
        .update({ capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY] });
    });
  });
  afterEach(() => {
    device?.close();
    device = undefined;
    for (const client of clients) client.close();
  });

  async function follower(token = tenant.admin.token): Promise<Follower> {
    const client = await connectDashboard(app, token);
    clients.push(client);
    const updates: JobUpdate[] = [];
    client.socket.on('job:update', (update: JobUpdate) => updates.push(update));
    return { updates, follow: (filter = {}) => client.send('jobs:subscribe', filter) };
  }
  const order = async (): Promise<string> => {
    const { status, body } = await tenant.send('POST', `/backup/jobs/run/${enrolled.deviceId}`, {});
    expect(status, JSON.stringify(body)).to.equal(201);
    return body.id;
  };
  const connect = async (): Promise<FakeDevice> => {
    device = await connectDevice(app, enrolled.token, {
      capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
    });
    return device;
  };
  const begin = async (): Promise<{ id: string; frame: CommandFrame; agent: FakeDevice }> => {
    const id = await order();
    const agent = await connect();
    await app.settle();
    return { id, agent, frame: await agent.nextCommand() };
  };
  const last = ({ updates }: Follower, id: string) => updates.filter((update) => update.id === id).at(-1);
  const shows = (watcher: Follower, id: string, isSo: (update: JobUpdate) => boolean) =>
    eventually(
      async () => {
        await app.settle();
        return last(watcher, id);
      },
      (update) => update !== undefined && isSo(update),
      20_000,
    );
  const inDatabase = (statement: string, ...values: string[]) =>
    inSystem(app, (tx) => tx.raw(statement, values));
  const stopped = (id: string) =>
    inDatabase(`update work set status = 'cancelled', stage = 'ended', finished_at = now() where id = ?`, id);

  it('shows a backup from its order to its end, with everything that the device reports', async () => {
    const watcher = await follower();
    await watcher.follow();
    const id = await order();
    await shows(watcher, id, ({ state }) => state === 'pending');
    expect(last(watcher, id)).to.include({
      kind: 'backup',
      orgId: tenant.orgId,
      deviceId: enrolled.deviceId,
      phase: 'pending',
      percent: null,
    });
    // It is connected only now, and gets what waited for it.
    const agent = await connect();
    await app.settle();
    const frame = await agent.nextCommand();

    const report = { id: frame.id, seq: 0, phase: 'transferring', done: 400, rate: 50, filesDone: 3 };
    await agent.send('command:progress', report);
    const unknown = await shows(watcher, id, ({ done }) => done === 400);
    expect(unknown).to.include({
      state: 'running',
      phase: 'transferring',
      percent: null,
      commandId: frame.id,
    });
    await agent.send('command:progress', {
      ...report,
      seq: 1,
      percent: 40,
      total: 1000,
      etaSeconds: 12,
      filesTotal: 8,
      path: '/home/ada/a\nb\u202Ec',
    });
    const known = await shows(watcher, id, ({ percent }) => percent === 40);
    expect(known).to.include({ total: 1000, rate: 50, etaSeconds: 12, filesDone: 3, filesTotal: 8 });
    expect(known?.path, 'in one line, as it is written').to.equal('/home/ada/a\uFFFDb\uFFFDc');
    const { body } = await tenant.send('GET', `/backup/jobs/${id}`);
    expect(body.progress).to.deep.include({
      phase: 'transferring',
      percent: 40,
      doneBytes: 400,
      totalBytes: 1000,
      doneFiles: 3,
      totalFiles: 8,
      rate: 50,
      etaSeconds: 12,
      currentPath: known?.path,
      stalledSince: null,
    });

    const late = await follower();
    const { jobs } = await late.follow({ deviceId: enrolled.deviceId });
    expect(jobs.find((job) => job.id === id)).to.deep.include({ kind: 'backup', percent: 40 });
    await agent.fail(frame, 'DESTINATION_FULL', 'The destination is full.');
    const end = await shows(watcher, id, ({ state }) => state === 'failed');
    expect(end).to.include({ message: 'The destination is full.' });
    expect(end).not.to.have.any.keys('path', 'rate', 'etaSeconds');
    const named = await follower();
    expect((await named.follow({ jobId: id })).jobs.map(({ state }) => state)).to.deep.equal(['failed']);
  });

  it('shows restores, verifications and rotations of keys, even if they change in the database only', async () => {
    const watcher = await follower();
    await watcher.follow({ orgId: tenant.orgId });
    const verification = newId();
    const { deviceId } = enrolled;
    const restore = await inSystem(app, (tx) => insertRestore(tx, { orgId: tenant.orgId, deviceId }));
    await shows(watcher, restore, ({ kind, state }) => kind === 'restore' && state === 'pending');
    await inDatabase(
      `update work set status = 'running', started_at = now(),
        progress = '{"phase": "placing", "percent": 80.5, "filesDone": 4, "path": "/a"}' where id = ?`,
      restore,
    );
    const running = await shows(watcher, restore, ({ state }) => state === 'running');
    expect(running).to.include({ phase: 'placing', percent: 80.5, filesDone: 4, path: '/a' });
    await inDatabase(
      `with added as (
        insert into work (id, kind, partner_id, org_id, device_id, input, step, deadline_at, paused_at)
        select ?, 'verification', o.partner_id, o.id, ?, '{}', 'verify', now() + interval '1 day', now()
        from organizations o where o.id = ? returning id, org_id)
      insert into backup_verification_facts (id, org_id, verification_type) select id, org_id, 'integrity' from added`,
      verification,
      enrolled.deviceId,
      tenant.orgId,
    );
    await shows(watcher, verification, ({ kind, state }) => kind === 'verification' && state === 'pending');
    await inDatabase(
      `update work set status = 'completed', stage = 'ended', finished_at = now() where id = ?`,
      verification,
    );
    await shows(watcher, verification, ({ state }) => state === 'passed');

    await tenant.send('POST', `/backup/encryption/keys/${tenant.keyId}/rotate`);
    const begun = await shows(watcher, tenant.keyId, ({ state }) => state === 'running');
    expect(begun).to.include({ kind: 'key_rotation', percent: 0, done: 0 });
    await inDatabase(`update backup_repositories set key_version = 2 where device_id = ?`, enrolled.deviceId);
    await shows(watcher, tenant.keyId, ({ done }) => done === 1);
    await inDatabase(`update backup_encryption_keys set status = 'active' where id = ?`, tenant.keyId);
    await shows(watcher, tenant.keyId, ({ state }) => state === 'completed');
    await inDatabase(
      `update work set status = 'failed', stage = 'ended', finished_at = now() where id = ?`,
      restore,
    );
  });

  it('is not shown outside of the tenant or the organization, nor without the right to see it', async () => {
    const stranger = await buildTenant(app);
    const elsewhere = await buildOrganization(app, tenant.partnerId);
    const neighbour = await buildPerson(app, { scope: 'organization', orgId: elsewhere });
    const role = await tenant.send('POST', '/roles', {
      name: 'Sees devices',
      scope: 'partner',
      permissions: ['devices:read', 'recovery:read'],
    });
    expect(role.status, JSON.stringify(role.body)).to.equal(201);
    const { partnerId } = tenant;
    const limited = await buildPerson(app, { scope: 'partner', partnerId, role: role.body.id });
    const others = await Promise.all(
      [stranger.admin, neighbour, limited].map(({ token }) => follower(token)),
    );
    for (const other of others) expect((await other.follow()).ok).to.equal(true);
    const witness = await follower();
    await witness.follow();
    const id = await order();
    await shows(witness, id, ({ state }) => state === 'pending');
    for (const other of others) {
      expect((await other.follow({ jobId: id })).error?.code).to.equal('NOT_FOUND');
      expect(other.updates.filter((update) => update.id === id)).to.deep.equal([]);
    }
    const [, , withoutRight] = others;
    expect((await withoutRight?.follow({ deviceId: enrolled.deviceId }))?.jobs).to.deep.equal([]);
    // What the right is for, it does show.
    const { deviceId } = enrolled;
    const restore = await inSystem(app, (tx) => insertRestore(tx, { orgId: tenant.orgId, deviceId }));
    if (withoutRight !== undefined) await shows(withoutRight, restore, ({ kind }) => kind === 'restore');
    await inDatabase(
      `update work set status = 'failed', stage = 'ended', finished_at = now() where id = ?`,
      restore,
    );
    await stopped(id);
    await shows(witness, id, ({ state }) => state === 'cancelled');
    expect(others.flatMap(({ updates }) => updates).some((update) => update.id === id)).to.equal(false);
  });

  it('follows a device that moves: who may not see the new organization is sent nothing of there', async () => {
    const elsewhere = await buildOrganization(app, tenant.partnerId);
    const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    const own = await follower(person.token);
    const partner = await follower();
    await partner.follow();
    const id = await order();
    expect((await own.follow({ deviceId: enrolled.deviceId })).jobs.map((job) => job.id)).to.include(id);
    await own.follow({ jobId: id });
    await shows(partner, id, ({ orgId }) => orgId === tenant.orgId);
    await inSystem(app, async (tx) => {
      const [site] = await tx('sites').where({ org_id: elsewhere }).select('id');
      const siteId = site?.id ?? newId();
      if (site === undefined) {
        await tx('sites').insert({ id: siteId, org_id: elsewhere, name: 'There', timezone: 'UTC' });
      }
      await tx('devices').where({ id: enrolled.deviceId }).update({ org_id: elsewhere, site_id: siteId });
    });
    await shows(partner, id, ({ orgId }) => orgId === elsewhere);
    await stopped(id);
    await shows(partner, id, ({ state }) => state === 'cancelled');
    expect(own.updates.filter(({ orgId }) => orgId === elsewhere)).to.deep.equal([]);
  });

  it('lets no device put nonsense into a job, or say something of the job of another one', async () => {
    const { id, frame, agent } = await begin();
    const bad = await buildDevice(app, tenant.orgId);
    const enemy = await connectDevice(app, bad.token);
    const watcher = await follower();
    await watcher.follow({ deviceId: enrolled.deviceId });
    const good = { id: frame.id, seq: 0, phase: 'transferring', done: 5, percent: 5 };
    await enemy.send('command:progress', { ...good, percent: 99, path: 'not mine to say' });
    await agent.send('command:progress', good);
    await shows(watcher, id, ({ percent }) => percent === 5);
    for (const nonsense of [
      { done: 1e300 },
      { done: -1 },
      { total: Number.MAX_SAFE_INTEGER * 4 },
      { percent: 101 },
      { filesDone: 1.5 },
      { filesTotal: '7' },
      { etaSeconds: 1e40 },
      { path: { toString: 'x' } },
      { phase: 7 },
    ]) {
      const answer = await agent.send('command:progress', { ...good, seq: 1, ...nonsense });
      expect(answer, JSON.stringify(nonsense).slice(0, 80)).to.have.property('ok', false);
    }
    const most = { done: Number.MAX_SAFE_INTEGER, total: Number.MAX_SAFE_INTEGER, rate: 1.5, filesDone: 0 };
    await agent.send('command:progress', { ...good, seq: 2, ...most, percent: 6, path: '\u001b[2J\u0000x' });
    const kept = await shows(watcher, id, ({ percent }) => percent === 6);
    expect(kept).to.include({ done: Number.MAX_SAFE_INTEGER, rate: 1, path: '\uFFFD[2J\uFFFDx' });
    expect(watcher.updates.filter(({ percent }) => percent === 99)).to.deep.equal([]);
    enemy.close();
    await stopped(id);
  });

  it('is sent in its latest state only, however often it changes', async () => {
    const watcher = await follower();
    await watcher.follow({ orgId: tenant.orgId });
    const id = await order();
    await shows(watcher, id, ({ state }) => state === 'pending');
    const startedAt = Date.now();
    for (let percent = 1; percent <= 60; percent++) {
      await inDatabase(`update work set progress = '{"percent": ${percent}}' where id = ?`, id);
    }
    await shows(watcher, id, ({ percent }) => percent === 60);
    const sent = watcher.updates.filter((update) => update.id === id).length;
    expect(sent).to.be.at.most(3 + Math.ceil((Date.now() - startedAt) / 250));
    await stopped(id);
  });
});
