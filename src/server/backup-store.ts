import path from 'node:path';
import type { Config } from '../config.ts';
import {
  createStore,
  FolderStorage,
  OpenedImages,
  RepositoryReaders,
  S3Storage,
  ServerEngine,
} from '../features/backup/index.ts';
import { S3Objects } from '../platform/storage/s3-objects.ts';
import type { Infrastructure } from './infrastructure.ts';
import type { ServerOptions } from './options.ts';

/** The store for the backups of devices: in the data folder, or in the operator's bucket. */
export async function createBackupStore(
  { config, database, metrics, rateLimits, secrets }: Infrastructure,
  { backupStore: testing }: Pick<ServerOptions, 'backupStore'>,
) {
  const { quota, trashDays } = config.backupStore;
  const storage = storageOf(config, testing);
  // Parts of uploads are of an earlier run, unless several servers share the folder.
  if (config.redisUrl === undefined) await storage.sweep(0);
  const store = createStore({
    db: database.storePool,
    storage,
    quota,
    rateLimits,
    metrics,
    idleMs: testing?.idleMs,
  });
  const readers = new RepositoryReaders({ db: database.pool, storage, sealer: secrets });
  return { ...store, quota, trashDays, readers, images: new OpenedImages() };
}

function storageOf(
  { backupStore: { s3 }, dataDir }: Infrastructure['config'],
  testing: ServerOptions['backupStore'],
) {
  const folder = path.join(dataDir, 'backups');
  if (s3 === undefined) return new FolderStorage(folder, testing);
  const { prefix, ...bucket } = s3;
  return new S3Storage(new S3Objects(bucket), { ...testing, prefix, spool: path.join(folder, 'spool') });
}

/** restic for the work of the server itself in repositories. */
export const createBackupEngine = ({ dataDir, backupStore: { enginePath } }: Config) =>
  new ServerEngine({ folder: path.join(dataDir, 'backup-engine'), searchPath: enginePath });
