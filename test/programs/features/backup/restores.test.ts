import { expect } from 'chai';
import { COMMAND_TYPES, type CommandFrame, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import type { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildOrganization, buildPerson, buildTenant } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { storedText } from '../../../support/backup/backup-support.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { createStoreApp, inSystem, request } from '../../../support/backup/store-support.ts';

const OUTPUT = {
  status: 'completed',
  targetPath: '/var/lib/muster/restored/1',
  filesRestored: 2,
  bytesRestored: 11,
  filesSkipped: 0,
  seconds: 1.5,
  failed: { count: 0, paths: [] },
};

describe('restores', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let device: BackedUpDevice;
  let snapshot: BackupSnapshot;
  let agent: FakeDevice | undefined;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    device = await buildBackedUpDevice(app);
    await device.write({ 'a.txt': 'first', 'b/c.txt': 'second' });
    snapshot = await device.backUp();
  });
  after(async () => app?.close());
  afterEach(async () => {
    agent?.close();
    agent = undefined;
    await inSystem(app, (tx) =>
      tx('commands').whereNull('finished_at').update({ status: 'cancelled', finished_at: new Date() }),
    );
  });

  const connect = async (token = device.device.token) => {
    agent = await connectDevice(app, token, { capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY] });
    return agent;
  };
  const restore = (given: Record<string, unknown> = {}, person = device.admin) =>
    device.send('POST', '/backup/restore', { snapshotId: snapshot.id, ...given }, person);
  const read = async (id: string) => (await device.send('GET', `/backup/restore/${id}`)).body;
  const reached = (id: string, status: string) =>
    eventually(
      () => read(id),
      (found) => found.status === status,
    );
  interface Payload {
    restoreId: string;
    repository: {
      destination: { user: string; secret: { secretRef: string } };
      password: { secretRef: string };
    };
  }
  /** What the device can do with the credential that came with the command. */
  const readKeys = async ({ payload, secrets }: CommandFrame) => {
    const { destination } = (payload as Payload).repository;
    const secret = secrets?.[destination.secret.secretRef] ?? '';
    const credential = { id: destination.user, user: destination.user, secret };
    return (await request(app.url, device.repositoryId, credential, ['GET', 'keys/'])).status;
  };

  it('wait for a device that is away, run there, and end with what it reports', async () => {
    const made = await restore({ targetPath: '/srv/back', overwrite: 'ifNewer' });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    expect(made.body).to.include({
      status: 'pending',
      waitingFor: 'device',
      restoreType: 'full',
      targetPath: '/srv/back',
      deviceId: device.deviceId,
    });
    const { id } = made.body;
    const frame = await (await connect()).nextCommand();
    const payload = frame.payload as Payload;
    expect(payload).to.deep.include({
      restoreId: id,
      snapshotId: snapshot.engineId,
      targetPath: '/srv/back',
      overwrite: 'ifNewer',
      dryRun: false,
    });
    expect(frame.secrets?.[payload.repository.password.secretRef]).to.equal(device.password);
    expect(await readKeys(frame)).to.equal(200);
    await reached(id, 'running');
    const progress = { phase: 'restoring', percent: 50, done: 6, total: 11 };
    await agent?.send('command:progress', { id: frame.id, seq: 0, ...progress });
    await eventually(
      () => read(id),
      (found) => found.progress?.percent === 50,
    );
    await agent?.succeed(frame, { ...OUTPUT, targetPath: '/srv/back' });
    expect(await reached(id, 'completed')).to.deep.include({
      restoredFiles: 2,
      restoredSize: 11,
      waitingFor: null,
      error: null,
    });
    // The credential has ended with the restore.
    expect(await readKeys(frame)).to.equal(401);
    const again = await device.send('POST', `/backup/restore/${id}/rerun`, {});
    expect(again.status).to.equal(409);
  });

  it('name the folder of the agent, and the paths that could not be restored', async () => {
    const { body } = await restore();
    const frame = await (await connect()).nextCommand();
    const failed = { count: 3, paths: [{ path: '/a', message: 'denied' }] };
    await agent?.succeed(frame, { ...OUTPUT, status: 'partial', failed });
    expect(await reached(body.id, 'partial')).to.deep.include({ targetPath: OUTPUT.targetPath, failed });
  });

  it('fail with the reason of the device, and go on under the same id when they are run again', async () => {
    const { body } = await restore({ selectedPaths: [`${device.folder}/b`] });
    expect(body).to.include({ restoreType: 'selective' });
    const first = await (await connect()).nextCommand();
    await agent?.fail(first, 'TARGET_FULL', 'No space is left.');
    const failed = await reached(body.id, 'failed');
    expect(failed.error).to.deep.equal({ code: 'TARGET_FULL', message: 'No space is left.' });
    const again = await device.send('POST', `/backup/restore/${body.id}/rerun`, {});
    expect(again.body, JSON.stringify(again.body)).to.include({
      status: 'pending',
      attempts: 2,
      error: null,
    });
    const second = await agent!.nextCommand();
    expect((second.payload as Payload).restoreId).to.equal(body.id);
    expect(second.payload).to.deep.include({ selectedPaths: [`${device.folder}/b`] });
    // A late word of the first attempt changes nothing.
    await agent?.succeed(second, OUTPUT);
    await reached(body.id, 'completed');
  });

  it('are cancelled before and while they run', async () => {
    const waiting = await restore();
    const cancelled = await device.send('POST', `/backup/restore/${waiting.body.id}/cancel`, {});
    expect(cancelled.body).to.include({ status: 'cancelled', waitingFor: null });
    expect((await device.send('POST', `/backup/restore/${waiting.body.id}/cancel`, {})).status).to.equal(409);

    const { body } = await restore();
    const frame = await (await connect()).nextCommand();
    await reached(body.id, 'running');
    await device.send('POST', `/backup/restore/${body.id}/cancel`, {});
    await eventually(
      () => agent?.cancelled.includes(frame.id),
      (isAsked) => isAsked === true,
    );
    await agent?.finish(frame, { status: 'cancelled' });
    await reached(body.id, 'cancelled');
  });

  it('count a result that comes after the time is up', async () => {
    const { body } = await restore();
    const frame = await (await connect()).nextCommand();
    await reached(body.id, 'running');
    await inSystem(app, (tx) =>
      tx('commands')
        .where({ id: frame.id })
        .update({ status: 'timed_out', reason: 'no_result', finished_at: new Date() }),
    );
    expect((await reached(body.id, 'failed')).error.code).to.equal('TIMED_OUT');
    await agent?.succeed(frame, OUTPUT);
    expect(await reached(body.id, 'completed')).to.deep.include({ restoredFiles: 2, error: null });
  });

  it('of an earlier state are given a credential of that time', async () => {
    const asOf = snapshot.receivedAt.toISOString();
    const { body } = await restore({ asOf });
    expect(body).to.include({ asOf });
    await (await connect()).nextCommand();
    const [credential] = await inSystem(app, (tx) =>
      tx('backup_store_credentials').where({ job_id: body.id }).select('role', 'as_of'),
    );
    expect(credential).to.deep.equal({ role: 'as-of', as_of: snapshot.receivedAt });
  });

  it('go to another device of the organization, and to no other', async () => {
    const sibling = await buildDevice(app, device.orgId);
    expect((await restore({ deviceId: sibling.deviceId })).body).to.include({ deviceId: sibling.deviceId });
    // Of another organization that the same person manages.
    const foreign = await buildDevice(app, await buildOrganization(app, device.partnerId));
    const stranger = await buildTenant(app);
    const strange = await buildDevice(app, stranger.orgId);
    for (const { deviceId } of [foreign, strange]) {
      const answer = await restore({ deviceId });
      expect(answer.status).to.equal(400);
      expect(answer.body.details[0].path).to.equal('body.deviceId');
    }
    expect((await restore({}, stranger.admin)).status).to.equal(404);
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: device.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await restore({}, viewer)).status).to.equal(403);
  });

  it('refuse targets and paths that cannot be, before a device is asked', async () => {
    for (const [field, value] of [
      ['targetPath', '/'],
      ['targetPath', '//'],
      ['targetPath', 'relative'],
      ['targetPath', '/srv/../etc'],
      ['targetPath', String.raw`C:\Restored`],
      ['targetPath', '/a\0b'],
      ['targetPath', `/${'x'.repeat(5000)}`],
      ['selectedPaths', ['/none']],
      ['selectedPaths', ['a.txt']],
      ['selectedPaths', ['/../etc']],
      ['selectedPaths', []],
      ['restoreType', 'selective'],
      ['snapshotId', 'x'],
    ] as const) {
      const { status, body } = await restore({ [field]: value });
      expect(status, `${field} ${String(value).slice(0, 30)}`).to.equal(400);
      expect(body.details[0].path).to.match(new RegExp(`^body.${field}`));
    }
    const [{ count }] = (await inSystem(app, (tx) => tx('commands').where({ status: 'queued' }).count())) as [
      { count: string },
    ];
    expect(Number(count)).to.equal(0);
  });

  it('leave no secret in the database, the log or an answer', async () => {
    const { body } = await restore();
    const frame = await (await connect()).nextCommand();
    const values = Object.values(frame.secrets ?? {});
    expect(values).to.have.length(2);
    await agent?.succeed(frame, OUTPUT);
    const after = await reached(body.id, 'completed');
    const command = await device.send('GET', `/commands/${after.commandId}`);
    await app.server.chainWriter.flush();
    const left = [
      await storedText(app, [
        'backup_restore_facts',
        'work',
        'commands',
        'command_secrets',
        'audit_logs',
        'background_jobs',
      ]),
      JSON.stringify([app.log, after, command.body]),
    ].join('\n');
    for (const value of values) expect(left.includes(value)).to.equal(false);
    expect(left).to.contain('backup.restore');
  });

  it('are listed by device, snapshot, state and time', async () => {
    const { body } = await restore();
    const list = (query: string) => device.send('GET', `/backup/restore?${query}`);
    const found = await list(`deviceId=${device.deviceId}&snapshotId=${snapshot.id}&status=queued`);
    expect(found.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([body.id]);
    expect((await list('status=running')).body.data).to.deep.equal([]);
    expect((await list('from=2999-01-01')).body.data).to.deep.equal([]);
    expect((await list('status=nothing')).status).to.equal(400);
    const stranger = (await buildTenant(app)).admin;
    expect((await device.send('GET', '/backup/restore', undefined, stranger)).body.data).to.deep.equal([]);
    expect((await device.send('GET', `/backup/restore/${body.id}`, undefined, stranger)).status).to.equal(
      404,
    );
  });
});
