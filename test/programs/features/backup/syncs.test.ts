import { expect } from 'chai';
import { watchBackups } from '../../../../src/features/backup/watch.work.ts';
import { findOutdated } from '../../../../src/features/backup/retention.service.ts';
import { ENGINE_MISSING_CAPABILITY } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import type { FakeDevice } from '../../../support/fake-device.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant, storedText } from '../../../support/backup/backup-support.ts';
import { createStoreApp, inSystem, request } from '../../../support/backup/store-support.ts';
import {
  ABLE,
  buildVaultDevice,
  connected,
  copiesOf,
  copyIdOf,
  payloadOf,
  runVaultSchedules,
  type VaultDevice,
} from '../../../support/backup/vaults/vault-support.ts';

/** The life of syncs with a scripted device. `npm run test:backup-vaults` goes the whole way with real restic. */

describe('the sync of a vault', function () {
  this.timeout(60_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let configId: string;
  let vault: VaultDevice;
  let device: FakeDevice | undefined;

  before(async () => {
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
    configId = (await tenant.createConfig()).id;
  });
  after(async () => app?.close());
  beforeEach(async () => {
    vault = await buildVaultDevice(app, tenant, configId);
  });
  afterEach(() => {
    device?.close();
    device = undefined;
  });

  const connect = async (capabilities?: readonly string[]) => {
    device = await connected(app, vault, capabilities);
    return device;
  };
  const started = async (body: object = {}) => {
    const answer = await vault.sync(body);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return String(answer.body.id);
  };

  it('waits for its device, and gives it the newest snapshots, a reader of the one and a place for the other', async () => {
    const snapshots = [await vault.addSnapshot(30), await vault.addSnapshot(20), await vault.addSnapshot(10)];
    await vault.addSnapshot(40);
    const answer = await vault.sync();
    expect(answer.body).to.include({ status: 'pending', waitingFor: 'device', reason: 'manual' });
    const second = await vault.sync();
    expect(second.status).to.equal(409);
    expect(second.body.details).to.deep.equal({ syncId: answer.body.id });

    const { deviceId, sourceId, copiesId } = vault;
    const frame = await (await connect()).nextCommand();
    expect(frame.type).to.equal('backup.vault-sync');
    const payload = payloadOf(frame);
    expect(payload.snapshotIds).to.deep.equal(snapshots.toReversed());
    expect(payload.vault).to.include({ isNew: true });
    expect(payload.vault.destination).to.deep.equal({ type: 'local', path: `/mnt/vault/${copiesId}` });
    const { user, secret } = payload.source.destination;
    const credential = { id: user, user, secret: frame.secrets?.[secret.secretRef] ?? '' };
    const asked = (method: string, place: string) => request(app.url, sourceId, credential, [method, place]);
    expect((await asked('GET', 'snapshots/')).status).to.equal(200);
    expect((await asked('DELETE', `snapshots/${snapshots[0]}`)).status, 'only reads').to.equal(403);

    const destinationRoom = { freeBytes: 5_000_000_000_000, totalBytes: 8_000_000_000_000 };
    await device?.succeed(frame, { ...copiesOf(frame), destinationRoom });
    const status = await vault.ended();
    const room = () =>
      inSystem(app, (tx) =>
        tx('backup_repositories')
          .where({ id: copiesId })
          .first('destination_free_bytes as free', 'destination_total_bytes as total'),
      );
    expect(await room()).to.deep.equal({ free: '5000000000000', total: '8000000000000' });
    expect(status).to.include({ state: 'current', snapshots: 3, lastError: null });
    expect(status.syncs[0]).to.include({ status: 'completed', copiedSnapshots: 3, deviceId });
    expect((await asked('GET', 'snapshots/')).status, 'after the end').to.equal(401);
    const shown = await tenant.send('GET', `/backup/vault/${vault.vaultId}`);
    expect(shown.body).to.include({ lastSyncStatus: 'completed', syncSizeBytes: null });
    const text = await storedText(app, [
      'commands',
      'backup_vaults',
      'work',
      'backup_vault_sync_facts',
      'audit_logs',
    ]);
    for (const value of Object.values(frame.secrets ?? {})) expect(text).not.to.include(value);
  });

  it('counts only what the device was told to copy, and fails if something is missing', async () => {
    const [old, newest] = [await vault.addSnapshot(20), await vault.addSnapshot(10)];
    await connect();
    await started();
    const frame = await device!.nextCommand();
    const foreign = 'f'.repeat(64);
    await device!.succeed(frame, {
      copies: [
        { source: foreign, copy: 'e'.repeat(64) },
        { source: old, copy: copyIdOf(old) },
      ],
      seconds: 1,
    });
    const status = await vault.ended();
    expect(status).to.include({ state: 'behind', snapshots: 1 });
    expect(status.lastError.code).to.equal('SNAPSHOT_MISSING');
    expect(status.lag.snapshots).to.equal(1);
    expect(status.nextSyncAt).to.be.a('string');
    const rows = await inSystem(app, (tx) => tx('backup_snapshots').where({ repository_id: vault.copiesId }));
    expect(rows.map(({ engine_id: id }: { engine_id: string }) => id)).to.deep.equal([copyIdOf(old)]);
    expect(newest).not.to.equal(old);
  });

  it('is of no device but its own', async () => {
    await vault.addSnapshot(1);
    await connect();
    await started();
    const frame = await device!.nextCommand();
    const other = await buildVaultDevice(app, tenant, configId);
    const intruder = await connected(app, other);
    await intruder.succeed(frame, copiesOf(frame)).catch(() => {});
    const { syncs } = await vault.status();
    expect(syncs[0]).to.include({ finishedAt: null });
    intruder.close();
    await device!.fail(frame, 'DESTINATION_FULL', 'The destination of the backup has no space left.');
    const status = await vault.ended();
    expect(status).to.include({ state: 'empty', snapshots: 0 });
    expect(status.lastError.code).to.equal('DESTINATION_FULL');
  });

  it('is cancelled: at once while it waits, and by the device when it runs', async () => {
    await vault.addSnapshot(1);
    const cancel = () => tenant.send('POST', `/backup/vault/${vault.vaultId}/cancel`);
    expect((await cancel()).status).to.equal(409);
    await started();
    // Parked: a step that only looks whether the device is there would have to end before.
    await app.settle();
    expect((await cancel()).body).to.include({ status: 'cancelled' });
    await connect();
    await started();
    const frame = await device!.nextCommand();
    expect((await cancel()).body.cancelRequestedAt).to.be.a('string');
    await eventually(
      () => device!.cancelled,
      (cancelled) => cancelled.includes(frame.id),
    );
    await device!.finish(frame, { status: 'cancelled' });
    expect((await vault.ended()).syncs[0]).to.include({ status: 'cancelled', error: null });
  });

  it('that failed in silence is completed by a late result', async () => {
    await vault.addSnapshot(1);
    await connect();
    await started();
    const frame = await device!.nextCommand();
    await inSystem(app, (tx) =>
      tx('commands').where({ id: frame.id }).update({
        status: 'timed_out',
        reason: 'no_result',
        finished_at: tx.fn.now(),
      }),
    );
    expect((await vault.ended()).lastError.code).to.equal('TIMED_OUT');
    await device!.succeed(frame, copiesOf(frame));
    await eventually(
      () => vault.status(),
      ({ state, syncs: [newest] }) => state === 'current' && newest.status === 'completed',
      20_000,
    );
  });

  it('whose command was never sent waits for its device again, and is cancelled at once while it waits', async () => {
    await vault.addSnapshot(1);
    await connect();
    const id = await started();
    const first = await device!.nextCommand();
    const { user, secret } = payloadOf(first).source.destination;
    const credential = { id: user, user, secret: first.secrets?.[secret.secretRef] ?? '' };
    const reading = () => request(app.url, vault.sourceId, credential, ['GET', 'snapshots/']);
    expect((await reading()).status).to.equal(200);
    const expire = (frame: { id: string }) =>
      inSystem(app, (tx) =>
        tx('commands').where({ id: frame.id }).update({ status: 'expired', finished_at: tx.fn.now() }),
      );
    await expire(first);
    const second = await device!.nextCommand();
    expect(second.id).not.to.equal(first.id);
    expect(payloadOf(second).syncId).to.equal(id);
    expect((await reading()).status, 'with the former credential').to.equal(401);

    device!.close();
    await eventually(
      () => inSystem(app, (tx) => tx('device_presence').where({ device_id: vault.deviceId }).first('state')),
      (row) => row.state !== 'connected',
    );
    await expire(second);
    // The engine has found that the device is away. While it looks, a request to cancel waits for it.
    await eventually(
      () => inSystem(app, (tx) => tx('work').where({ id }).first('stage')),
      (row) => row.stage === 'parked',
    );
    const waiting = await vault.status();
    expect(waiting.syncs[0]).to.include({
      id,
      status: 'pending',
      commandId: null,
      waitingFor: 'device',
      startedAt: null,
      progress: null,
    });
    const cancelled = await tenant.send('POST', `/backup/vault/${vault.vaultId}/cancel`);
    expect(cancelled.body).to.include({ id, status: 'cancelled' });
  });

  it('of a vault that is deleted leaves its device nothing to read, and changes nothing when that reports', async () => {
    await vault.addSnapshot(1);
    await connect();
    const id = await started();
    const frame = await device!.nextCommand();
    const { user, secret } = payloadOf(frame).source.destination;
    const credential = { id: user, user, secret: frame.secrets?.[secret.secretRef] ?? '' };
    expect((await tenant.send('DELETE', `/backup/vault/${vault.vaultId}`)).status).to.equal(200);
    await device!.succeed(frame, copiesOf(frame));
    await eventually(
      () => inSystem(app, (tx) => tx('work').where({ id }).first('status')),
      (row) => row.status === 'cancelled',
    );
    const read = await request(app.url, vault.sourceId, credential, ['GET', 'snapshots/']);
    expect(read.status).to.equal(401);
    const copies = await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ repository_id: vault.copiesId }),
    );
    expect(copies).to.deep.equal([]);
  });

  it('is refused before anything is made if restic is missing, and if there is nothing to copy', async () => {
    expect((await vault.sync()).status, 'no snapshot').to.equal(409);
    await vault.addSnapshot(1);
    await connect([...ABLE, ENGINE_MISSING_CAPABILITY]);
    for (const [path, body] of [
      [`/backup/vault/${vault.vaultId}/sync`, {}],
      [`/backup/jobs/run/${vault.deviceId}`, { configId }],
      ['/backup/verify', { deviceId: vault.deviceId, configId, verificationType: 'test_restore' }],
    ] as const) {
      const answer = await tenant.send('POST', path, body);
      expect([answer.status, answer.body.code], path).to.deep.equal([409, 'ENGINE_MISSING']);
    }
    expect((await vault.status()).syncs).to.deep.equal([]);
  });

  it('copies one snapshot if it is named, which has to be of the device', async () => {
    await vault.addSnapshot(5);
    const wanted = await vault.addSnapshot(500);
    const [{ id }] = await inSystem(app, (tx) => tx('backup_snapshots').where({ engine_id: wanted }));
    const other = await buildVaultDevice(app, tenant, configId);
    const ofOther = await other.addSnapshot(1);
    const [{ id: foreign }] = await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ engine_id: ofOther }),
    );
    expect((await vault.sync({ snapshotId: foreign })).status).to.equal(400);
    await started({ snapshotId: id });
    const frame = await (await connect()).nextCommand();
    expect(payloadOf(frame).snapshotIds).to.deep.equal([wanted]);
  });

  it('copies with the log of a database everything that it needs, the full backup first', async () => {
    const ofDatabase = (hoursAgo: number, backupType: 'full' | 'log') =>
      vault.addSnapshot(hoursAgo, {
        backup_type: 'database',
        details: JSON.stringify({ kind: 'database', engine: 'postgresql', instance: '/run/a', backupType }),
      });
    await ofDatabase(300, 'full');
    await ofDatabase(299, 'log');
    const full = await ofDatabase(200, 'full');
    const logs: string[] = [];
    for (let hoursAgo = 150; hoursAgo > 0; hoursAgo -= 1) logs.push(await ofDatabase(hoursAgo, 'log'));
    await connect();
    await started();
    const first = await device!.nextCommand();
    expect(payloadOf(first).snapshotIds).to.deep.equal([full, ...logs.slice(0, 99)]);
    await device!.succeed(first, copiesOf(first));
    const second = await device!.nextCommand();
    expect(payloadOf(second).snapshotIds.slice(0, 51)).to.deep.equal(logs.slice(99));
    await device!.succeed(second, copiesOf(second));
    await eventually(
      () => vault.status(),
      ({ state, syncs }) => state === 'current' && syncs.length === 2,
    );
  });

  it('copies images of machines each for itself, the newest first', async () => {
    const ofMachine = (hoursAgo: number, kind: 'image' | 'machines') =>
      vault.addSnapshot(hoursAgo, { backup_type: 'system_image', details: JSON.stringify({ kind }) });
    const [first, second] = [await ofMachine(30, 'image'), await ofMachine(20, 'machines')];
    const third = await ofMachine(10, 'image');
    await connect();
    await started();
    const frame = await device!.nextCommand();
    expect(payloadOf(frame).snapshotIds).to.deep.equal([third, second, first]);
    await device!.succeed(frame, copiesOf(frame));
    await eventually(
      () => vault.status(),
      ({ state }) => state === 'current',
    );
  });

  it('raises an alert when the vault is behind for too long, and ends it when it is not', async () => {
    const db = app.server.database.jobPool;
    const alerts = () =>
      inSystem(app, (tx) =>
        tx('alerts')
          .where({ device_id: vault.deviceId, kind: 'backup_vault_behind' })
          .select('status', 'message'),
      );
    const round = () => watchBackups(db, new AbortController().signal);
    await vault.addSnapshot(47);
    await round();
    expect(await alerts()).to.deep.equal([]);
    await vault.addSnapshot(50);
    await round();
    const [alert] = await alerts();
    expect(alert.status).to.equal('active');
    expect(alert.message).to.include('Vault: 2 snapshots are missing, the oldest for 50 hours.');
    expect((await vault.status()).lag).to.include({ snapshots: 2, isTooLong: true });
    await connect();
    await started();
    const frame = await device!.nextCommand();
    await device!.succeed(frame, copiesOf(frame));
    await vault.ended();
    await round();
    expect((await alerts())[0].status).to.equal('resolved');
  });

  it('leaves copies to retention by their number, but not those on hold', async () => {
    const hours = [900, 800, 700, 600, 500];
    const made: string[] = [];
    for (const each of hours) made.push(await vault.addSnapshot(each));
    await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ engine_id: made[0] }).update({ legal_hold: true }),
    );
    await tenant.send('PATCH', `/backup/vault/${vault.vaultId}`, { retentionCount: 5 });
    await connect();
    await started();
    const frame = await device!.nextCommand();
    await device!.succeed(frame, copiesOf(frame));
    await vault.ended();
    await tenant.send('PATCH', `/backup/vault/${vault.vaultId}`, { retentionCount: 2 });
    const outdated = await findOutdated(app.server.database.jobPool, vault.copiesId);
    expect(outdated.map(({ engineId }) => engineId)).to.have.members(
      [made[1], made[2]].map((id) => copyIdOf(id ?? '')),
    );
  });

  it('begins by the schedule of the vault, once', async () => {
    await vault.addSnapshot(1);
    const schedule = { frequency: 'daily', time: '03:00' };
    const patched = await tenant.send('PATCH', `/backup/vault/${vault.vaultId}`, { schedule });
    expect(Date.parse(patched.body.nextSyncAt)).to.be.greaterThan(Date.now());
    await inSystem(app, (tx) =>
      tx('backup_vaults')
        .where({ id: vault.vaultId })
        .update({ next_sync_at: new Date(0) }),
    );
    await runVaultSchedules(app);
    const frame = await (await connect()).nextCommand();
    expect((await vault.status()).syncs[0]).to.include({ reason: 'schedule' });
    await device!.succeed(frame, copiesOf(frame));
    const status = await vault.ended();
    expect(status.syncs).to.have.length(1);
    expect(Date.parse(status.nextSyncAt)).to.be.greaterThan(Date.now());
  });
});
