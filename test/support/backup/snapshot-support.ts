import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { BackupRepository } from '../../../src/features/backup-store/repository.model.ts';
import { createRepository } from '../../../src/features/backup-store/repository.service.ts';
import { BackupSnapshot } from '../../../src/features/backup/snapshot.model.ts';
import { buildDevice } from '../factories.ts';
import { type Restic, resticFor } from '../restic.ts';
import type { TestApp } from '../test-app.ts';
import { buildBackupTenant } from './backup-support.ts';
import { end, inSystem, issue, resticUrl, storeNewRepository } from './store-support.ts';

type StoreApp = TestApp & { dataDir: string };

/** A device with a repository in the store, which the real restic opens with the material of a key. */
export async function buildBackedUpDevice(app: StoreApp) {
  const tenant = await buildBackupTenant(app);
  const { orgId } = tenant;
  const device = await buildDevice(app, orgId);
  const material = randomBytes(32).toString('base64');
  const key = await tenant.send('POST', '/backup/encryption/keys', { orgId, name: 'Known', material });
  const encryptionKeyId: string = key.body.id;
  const { id: repositoryId } = await inSystem(app, async (tx) => {
    const made = await createRepository(tx, { orgId, deviceId: device.deviceId, configId: null });
    await BackupRepository.query(tx).findById(made.id).patch({ encryptionKeyId, keyVersion: 1 });
    return made;
  });
  const folder = path.join(app.dataDir, `source-${repositoryId}`);
  await mkdir(folder);

  const as = async (role: Parameters<typeof issue>[2], more: Parameters<typeof issue>[3] = {}) => {
    const credential = await issue(app, repositoryId, role, more);
    const cache = path.join(app.dataDir, `cache-${credential.id}`);
    const restic: Restic = resticFor(resticUrl(app.url, repositoryId, credential), cache, material);
    return { ...restic, credential };
  };
  const server = await issue(app, repositoryId, 'server');
  await storeNewRepository(app, repositoryId, server, material);
  await end(app, server);

  return {
    ...tenant,
    deviceId: device.deviceId,
    device,
    repositoryId,
    encryptionKeyId,
    password: material,
    /** What is backed up. */
    folder,
    as,
    async write(files: Record<string, string | Buffer>) {
      for (const [name, content] of Object.entries(files)) {
        const file = path.join(folder, name);
        await mkdir(path.dirname(file), { recursive: true });
        await writeFile(file, content);
      }
    },
    /** A backup by the device. Answers the id of the engine. */
    async runBackup(): Promise<string> {
      const restic = await as('device');
      await restic.ok('backup', folder);
      await end(app, restic.credential);
      const [newest] = await snapshotObjects(app, repositoryId);
      if (newest === undefined) throw new Error('the backup has made no snapshot');
      return newest.name;
    },
    /** The same with the row that the end of a job adds. */
    async backUp(given: Partial<BackupSnapshot> = {}): Promise<BackupSnapshot> {
      const engineId = await this.runBackup();
      return inSystem(app, async (tx) => {
        const [object] = await snapshotObjects(app, repositoryId);
        return BackupSnapshot.query(tx).insertAndFetch({
          orgId,
          deviceId: device.deviceId,
          repositoryId,
          engineId,
          receivedAt: object?.arrived_at ?? new Date(),
          paths: [folder],
          sizeBytes: '1000',
          ...given,
        });
      });
    },
  };
}
export type BackedUpDevice = Awaited<ReturnType<typeof buildBackedUpDevice>>;

/** The newest first. */
const snapshotObjects = (
  app: StoreApp,
  repositoryId: string,
): Promise<{ name: string; arrived_at: Date }[]> =>
  inSystem(app, (tx) =>
    tx('backup_objects')
      .where({ repository_id: repositoryId, type: 'snapshots' })
      .orderBy('arrived_at', 'desc')
      .select('name', 'arrived_at'),
  );
