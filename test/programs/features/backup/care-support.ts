import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { backup } from '../../../../src/engine/index.ts';
import { EncryptionKeyVersion, passwordOf } from '../../../../src/features/backup/key.model.ts';
import type { SetAsideParts } from '../../../../src/features/backup/retention.service.ts';
import { FolderStorage } from '../../../../src/features/backup-store/folder-storage.ts';
import { createRepository } from '../../../../src/features/backup-store/repository.service.ts';
import { ServerEngine, keyLabel } from '../../../../src/features/backup/repository-access.ts';
import { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { buildDevice } from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { TEST_ENCRYPTION_KEY } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { end, inSystem, issue, storeNewRepository } from '../../../support/backup/store-support.ts';

/** Repositories with snapshots that restic really made, as the flow of jobs leaves them. */

type App = Parameters<typeof buildBackupTenant>[0] & { dataDir: string };

export function accessParts(app: App): SetAsideParts {
  return {
    db: app.server.database.jobPool,
    secrets: createEncryptor({ current: TEST_ENCRYPTION_KEY, old: [] }),
    engine: new ServerEngine({
      folder: path.join(app.dataDir, 'engine'),
      searchPath: '/usr/local/bin:/usr/bin:/bin',
    }),
    loopbackUrl: app.url,
    storage: new FolderStorage(path.join(app.dataDir, 'backups')),
    log: quietLog,
  };
}

export interface CaredRepository {
  id: string;
  deviceId: string;
  configId: string;
  tenant: BackupTenant;
  source: string;
  /** Makes a backup that arrived so many days ago, and answers the id of its snapshot. */
  backUp(daysAgo: number, more?: Partial<BackupSnapshot>): Promise<BackupSnapshot>;
}

export async function buildCaredRepository(
  app: App,
  config: Record<string, unknown> = {},
): Promise<CaredRepository> {
  const tenant = await buildBackupTenant(app);
  const { id: configId } = await tenant.createConfig(config);
  const { deviceId } = await buildDevice(app, tenant.orgId);
  const parts = accessParts(app);
  const engine = await parts.engine.open();
  const { repository, password } = await inSystem(app, async (tx) => {
    const version = await EncryptionKeyVersion.query(tx).findOne({ key_id: tenant.keyId, version: 1 });
    if (version === undefined) throw new Error('the key has no version');
    return {
      password: passwordOf(parts.secrets, version),
      repository: await createRepository(tx, {
        orgId: tenant.orgId,
        deviceId,
        configId,
        provider: 'server',
        encryptionKeyId: tenant.keyId,
        keyVersion: 1,
      }),
    };
  });
  const { id } = repository;
  const open = (credential: { user: string; secret: string }) => ({
    destination: {
      type: 'rest' as const,
      url: `${app.url}/backup-store/${id}/`,
      user: credential.user,
      password: credential.secret,
    },
    password,
  });
  const server = await issue(app, id, 'server');
  const keyId = await storeNewRepository(app, id, server, password, keyLabel(1));
  await end(app, server);
  await inSystem(app, (tx) => repository.$query(tx).patch({ engineKeyId: keyId, initializedAt: new Date() }));

  const source = path.join(app.dataDir, `source-${id}`);
  await mkdir(source, { recursive: true });
  return {
    id,
    deviceId,
    configId,
    tenant,
    source,
    async backUp(daysAgo, more = {}) {
      await writeFile(path.join(source, `file-${newId()}`), randomBytes(150_000));
      const credential = await issue(app, id, 'device');
      const result = await backup(engine, open(credential), { paths: [source], host: 'device' });
      await end(app, credential);
      if (result.snapshotId === null) throw new Error('the snapshot has no id');
      const { snapshotId: engineId } = result;
      return inSystem(app, (tx) =>
        BackupSnapshot.query(tx).insertAndFetch({
          orgId: tenant.orgId,
          deviceId,
          configId,
          repositoryId: id,
          engineId,
          receivedAt: new Date(Date.now() - daysAgo * 86_400_000),
          sizeBytes: '150000',
          fileCount: '1',
          paths: [source],
          ...more,
        }),
      );
    },
  };
}

/** The folder of a server that dies at a step. */
export class DyingStorage extends FolderStorage {
  readonly #step: string;

  constructor(folder: string, step: string) {
    super(folder, { reserveBytes: 0 });
    this.#step = step;
  }

  override async write(...args: Parameters<FolderStorage['write']>) {
    const [, { type }] = args;
    return this.#at(type === 'config' ? 'config' : 'write', () => super.write(...args));
  }

  override async setAside(...args: Parameters<FolderStorage['setAside']>) {
    return this.#at('setAside', () => super.setAside(...args));
  }

  async #at<T>(step: string, work: () => Promise<T>): Promise<T> {
    if (this.#step === `before ${step}`) throw new Error(this.#step);
    const done = await work();
    if (this.#step === `after ${step}`) throw new Error(this.#step);
    return done;
  }
}
