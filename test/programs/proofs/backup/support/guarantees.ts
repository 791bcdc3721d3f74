import { expect } from 'chai';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { EncryptionKeyVersion, passwordOf } from '../../../../../src/features/backup/key.model.ts';
import { withSystem } from '../../../../../src/platform/db/transaction.ts';
import { createEncryptor } from '../../../../../src/platform/secrets/sealed.ts';
import { eventually } from '../../../../support/eventually.ts';
import { type Restic, resticFor } from '../../../../support/restic.ts';
import { type ProofDevice, STUCK_MS } from './device.ts';
import { describeTree, type Tree } from './tree.ts';
import { SERVER_KEY, type World } from './world.ts';

/** What has to be true whatever has died. */

interface Repository {
  id: string;
  key_version: number;
  encryption_key_id: string;
}

export async function repositoryOf(world: World, device: ProofDevice): Promise<Repository> {
  const found = await withSystem(await world.pool(), 'proof', (tx) =>
    tx('backup_repositories').where({ device_id: device.deviceId }).first<Repository | undefined>(),
  );
  if (found === undefined) throw new Error('the device has no repository');
  return found;
}

/** The password of a repository, as the recovery kit would say it. */
export async function passwordFor(world: World, { encryption_key_id, key_version }: Repository) {
  const version = await withSystem(await world.pool(), 'proof', (tx) =>
    EncryptionKeyVersion.query(tx).findOne({ key_id: encryption_key_id, version: key_version }),
  );
  if (version === undefined) throw new Error('the key has no version');
  return passwordOf(createEncryptor({ current: SERVER_KEY, old: [] }), version);
}

/** Stock restic on the folder of the store, without Muster. */
export async function stockRestic(world: World, device: ProofDevice): Promise<Restic & { folder: string }> {
  const repository = await repositoryOf(world, device);
  const folder = path.join(world.dataDir, 'server/backups', repository.id);
  const cache = path.join(world.dataDir, `cache-${repository.id}`);
  return { ...resticFor(folder, cache, await passwordFor(world, repository)), folder };
}

/** Nothing of the device is in flight any more. */
export async function expectNothingStuck(world: World, device: ProofDevice): Promise<void> {
  const { deviceId } = device;
  const open = async () => {
    const db = await world.pool();
    return withSystem(db, 'proof', async (tx) => ({
      jobs: await tx('backup_jobs').where({ device_id: deviceId }).whereNull('finished_at').pluck('id'),
      restores: await tx('backup_restores')
        .where({ device_id: deviceId })
        .whereNull('finished_at')
        .pluck('id'),
      commands: await tx('commands').where({ device_id: deviceId }).whereNull('finished_at').pluck('id'),
      writers: await tx('backup_store_credentials as c')
        .join('backup_repositories as r', 'r.id', 'c.repository_id')
        .where('r.device_id', deviceId)
        .whereNull('c.ended_at')
        .where('c.expires_at', '>', tx.fn.now())
        .pluck('c.role'),
    }));
  };
  const NOTHING = { jobs: [], restores: [], commands: [], writers: [] };
  const left = await eventually(
    () => open().catch(() => undefined),
    (now) => JSON.stringify(now) === JSON.stringify(NOTHING),
    STUCK_MS,
  );
  expect(left).to.deep.equal(NOTHING);
}

/** Each completed job has made one snapshot, which the device wrote once, and no other job has one of its own. */
export async function expectDoneOnce(world: World, device: ProofDevice): Promise<void> {
  const { id } = await repositoryOf(world, device);
  await withSystem(await world.pool(), 'proof', async (tx) => {
    const { rows } = await tx.raw<{ rows: { id: string; status: string; n: string }[] }>(
      `select j.id, j.status, (select count(*) from backup_snapshots s where s.job_id = j.id) as n
      from backup_jobs j where j.device_id = ?`,
      [device.deviceId],
    );
    for (const { id: jobId, status, n } of rows) {
      const most = status === 'completed' || status === 'partial' ? [1] : [0, 1];
      expect(most, `snapshots of ${status} job ${jobId}`).to.include(Number(n));
    }
    const shown = await tx('backup_snapshots').where({ repository_id: id }).pluck('engine_id');
    expect(new Set(shown).size, 'a snapshot is shown once').to.equal(shown.length);
    const stored = await tx('backup_objects')
      .where({ repository_id: id, type: 'snapshots' })
      .whereNull('trashed_at')
      .pluck('name');
    expect(stored, 'snapshots that the store has').to.have.members(shown);
  });
}

/** No lock is left that counts, and a check of all data by stock restic finds nothing. */
export async function expectSoundRepository(world: World, device: ProofDevice): Promise<void> {
  const { id } = await repositoryOf(world, device);
  const locks = await withSystem(await world.pool(), 'proof', (tx) =>
    tx('backup_objects as o')
      .join('backup_store_credentials as c', 'c.id', 'o.credential_id')
      .where({ 'o.repository_id': id, 'o.type': 'locks' })
      .whereNull('c.ended_at')
      .where('c.expires_at', '>', tx.fn.now())
      .pluck('o.name'),
  );
  expect(locks, 'locks that count').to.deep.equal([]);
  const restic = await stockRestic(world, device);
  await restic.ok('check', '--read-data', '--no-lock');
}

/** A completed snapshot, restored through Muster to a fresh folder, is what it was. */
export async function expectRestores(
  world: World,
  device: ProofDevice,
  snapshotId: string,
  was: Tree,
): Promise<void> {
  const targetPath = path.join(world.dataDir, `again-${snapshotId}`);
  await mkdir(targetPath);
  const restore = await device.restored(await device.orderRestore({ snapshotId, targetPath }));
  expect(restore, JSON.stringify(restore)).to.include({ status: 'completed', error: null });
  expect(await describeTree(path.join(targetPath, device.source))).to.deep.equal(was);
  await rm(targetPath, { recursive: true, force: true });
}
