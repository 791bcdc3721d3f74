import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { rename } from 'node:fs/promises';
import path from 'node:path';
import { findOutdated } from '../../../../src/features/backup/retention.service.ts';
import { reconcileSnapshots } from '../../../../src/features/backup/snapshot-reconciliation.work.ts';
import { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { FolderStorage } from '../../../../src/features/backup-store/folder-storage.ts';
import { reconcileAll } from '../../../../src/features/backup-store/upkeep.work.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { needsRestic } from '../../../support/restic.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { accessParts } from './care-support.ts';
import { createStoreApp, end, inSystem, request, sha256 } from '../../../support/backup/store-support.ts';

describe('the reconciliation of snapshots with their repositories', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let device: BackedUpDevice;
  const never = new AbortController().signal;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    device = await buildBackedUpDevice(app);
    await device.write({ 'a.txt': 'first' });
  });
  after(async () => app?.close());

  const parts = () => {
    const storage = new FolderStorage(path.join(app.dataDir, 'backups'));
    return { ...accessParts(app), storage, log: recordingLog().log };
  };
  const reconcile = (...ids: string[]) =>
    reconcileSnapshots(parts(), ids.length === 0 ? [device.repositoryId] : ids, never);
  const nothing = { gone: 0, returned: 0, found: 0 };
  const rowOf = async (engineId: string) => {
    const row = await inSystem(app, (tx) => BackupSnapshot.query(tx).findOne({ engine_id: engineId }));
    if (row === undefined) throw new Error('the snapshot has no row');
    return row;
  };
  const repository = () =>
    inSystem(
      app,
      async (tx): Promise<Record<string, unknown>> =>
        tx('backup_repositories').where({ id: device.repositoryId }).first(),
    );
  async function byHand(...args: string[]): Promise<void> {
    const restic = await device.as('server');
    await restic.ok(...args);
    await end(app, restic.credential);
  }

  it('follows what restic has done by hand: forget, backup and tag, with holds', async () => {
    const [kept, gone, held] = [
      await device.backUp(),
      await device.backUp(),
      await device.backUp({ legalHold: true, legalHoldReason: 'court' }),
    ];
    expect(await reconcile()).to.deep.equal(nothing);
    await byHand('forget', gone.engineId);
    await byHand('backup', '--time', '2031-01-01 00:00:00', device.folder);
    await byHand('tag', '--set', 'mine', held.engineId);
    expect(await reconcile()).to.deep.equal({ gone: 2, returned: 0, found: 2 });
    expect(await rowOf(kept.engineId)).to.include({ removedAt: null });
    const removed = await rowOf(gone.engineId);
    expect(removed.removedBecause).to.equal('no longer in the repository');

    const list = await device.send('GET', `/backup/snapshots?deviceId=${device.deviceId}`);
    expect(list.body.data).to.have.length(3);
    const found = list.body.data.filter(({ id }: { id: string }) => id !== kept.id);
    for (const each of found) {
      expect(each.paths).to.deep.equal([device.folder]);
      expect(each).to.include({ isPartial: true, jobId: null });
      // When it arrived, whatever time it says.
      expect(Math.abs(Date.parse(each.createdAt) - Date.now())).to.be.lessThan(120_000);
    }
    expect(found.map(({ takenAt }: { takenAt: string }) => takenAt.slice(0, 4))).to.include('2031');
    expect(found.map(({ legalHold }: { legalHold: boolean }) => legalHold).sort()).to.deep.equal([
      false,
      true,
    ]);
    // The hold went with its snapshot, so nothing was removed that must not go.
    expect(await repository()).to.include({ trash_held_at: null });
    const query = `path=${device.folder}&asOf=${kept.receivedAt.toISOString()}`;
    expect((await device.send('GET', `/backup/snapshots/${kept.id}/browse?${query}`)).status).to.equal(200);
    expect(await reconcile()).to.deep.equal(nothing);
  });

  it('keeps the trash if a person removes a held snapshot, until its hold is released', async () => {
    const held = await device.backUp({ legalHold: true, legalHoldReason: 'court' });
    await byHand('forget', held.engineId);
    expect(await reconcile()).to.deep.equal({ ...nothing, gone: 1 });
    expect((await repository())['trash_held_at']).to.be.instanceOf(Date);
    const release = { enabled: false };
    const answer = await device.send('POST', `/backup/snapshots/${held.id}/legal-hold`, release);
    expect(answer.body).to.include({ legalHold: false });
    const again = await device.send('POST', `/backup/snapshots/${held.id}/legal-hold`, { reason: 'court' });
    expect(again.status).to.equal(409);
  });

  it('shows again what came back with the folder of the store', async () => {
    const snapshot = await device.backUp();
    const file = path.join(app.dataDir, 'backups', device.repositoryId, 'snapshots', snapshot.engineId);
    await rename(file, `${file}.away`);
    await reconcileAll(parts(), never);
    expect(await reconcile()).to.deep.equal({ gone: 1, returned: 0, found: 0 });
    await rename(`${file}.away`, file);
    await reconcileAll(parts(), never);
    expect(await reconcile()).to.deep.equal({ gone: 0, returned: 1, found: 0 });
    expect((await rowOf(snapshot.engineId)).removedBecause).to.equal(null);
  });

  it('leaves removed what retention has removed, even if a device sends it again', async () => {
    const old = await device.backUp();
    await inSystem(app, (tx) => old.$query(tx).patch({ removedAt: new Date(), removedBecause: 'retention' }));
    expect(await reconcile()).to.deep.equal(nothing);
    expect((await rowOf(old.engineId)).removedAt).to.be.instanceOf(Date);
    expect((await repository())['prune_due_since']).to.be.instanceOf(Date);
  });

  it('passes over what cannot be read, and over repositories that cannot be opened', async () => {
    const running = await device.as('device');
    await running.ok('backup', device.folder);
    // While a job may still be running, its snapshot is left to it.
    expect(await reconcile()).to.deep.equal(nothing);
    const { credential } = await device.as('device');
    const junk = randomBytes(300);
    const place: [string, string] = ['POST', `snapshots/${sha256(junk)}`];
    const sent = await request(app.url, device.repositoryId, credential, place, { body: junk });
    expect(sent.status).to.equal(200);
    await end(app, running.credential);
    await end(app, credential);
    const locked = await buildBackedUpDevice(app);
    await locked.write({ x: 'x' });
    await locked.runBackup();
    await inSystem(app, (tx) =>
      tx('backup_repositories').where({ id: locked.repositoryId }).update({ encryption_key_id: newId() }),
    );
    expect(await reconcile(locked.repositoryId, device.repositoryId)).to.deep.equal({ ...nothing, found: 1 });
    const unreadable = await inSystem(app, (tx) =>
      tx('backup_objects').whereNotNull('unreadable_at').orderBy('name').pluck('repository_id'),
    );
    expect(unreadable).to.have.members([locked.repositoryId, device.repositoryId]);
    expect(await reconcile(locked.repositoryId, device.repositoryId)).to.deep.equal(nothing);
  });

  it('concludes nothing if the keys of a repository are missing too', async () => {
    const other = await buildBackedUpDevice(app);
    await other.write({ x: 'x' });
    const snapshot = await other.backUp();
    await inSystem(app, (tx) =>
      tx('backup_objects')
        .where({ repository_id: other.repositoryId })
        .whereNot('type', 'config')
        .update({ lost_at: new Date() }),
    );
    expect(await reconcile(other.repositoryId)).to.deep.equal(nothing);
    expect((await rowOf(snapshot.engineId)).removedAt).to.equal(null);
  });

  it('never lets found snapshots push out those of jobs', async () => {
    const config = await device.createConfig({ retention: { keepLast: 2 } });
    await inSystem(app, async (tx) => {
      await tx('backup_repositories').where({ id: device.repositoryId }).update({ config_id: config.id });
      await tx('backup_snapshots').where({ repository_id: device.repositoryId }).delete();
      const { orgId, deviceId, repositoryId } = device;
      const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000);
      const row = (days: number, jobId: string | null) => ({
        orgId,
        deviceId,
        repositoryId,
        jobId,
        engineId: randomBytes(32).toString('hex'),
        receivedAt: daysAgo(days),
      });
      const good = [40, 30, 20].map((days) => row(days, newId()));
      const flood = Array.from({ length: 50 }, (_, at) => row(10 + at / 100, null));
      await BackupSnapshot.query(tx).insert([...good, ...flood]);
    });
    const outdated = await findOutdated(accessParts(app).db, device.repositoryId);
    const rows = await inSystem(app, (tx) =>
      BackupSnapshot.query(tx).findByIds(outdated.map(({ id }) => id)),
    );
    expect(rows.filter(({ jobId }) => jobId !== null)).to.have.length(1);
    expect(rows).to.have.length(1 + 48);
  });
});
