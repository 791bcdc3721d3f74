import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openDatabase } from '../../src/platform/db/database.ts';
import { startEmbeddedPostgres } from '../../src/platform/db/embedded/index.ts';
import { newToken } from '../../src/platform/secrets/tokens.ts';
import { quietLog } from '../../test/support/quiet-log.ts';
import type { TestDatabase } from '../../test/support/test-postgres.ts';

/**
 * A migrated database with durable commits, as in production. The databases of the tests are not durable, to be
 * faster.
 */
export async function createDurableDatabase(): Promise<TestDatabase> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-bench-'));
  // If we are root, Postgres runs as another user, who needs access to this folder.
  await chmod(dataDir, 0o711);
  const postgres = await startEmbeddedPostgres({ dataDir, log: quietLog });
  const drop = async () => {
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  const app = new URL(postgres.ownerUrl);
  app.username = 'svc_app';
  app.password = newToken('agent');
  const database = { ownerUrl: postgres.ownerUrl, appUrl: app.href, drop };
  try {
    const opened = await openDatabase({ ...database, autoMigrate: true, poolSize: 2, log: quietLog });
    await opened.close();
    return database;
  } catch (error) {
    await drop();
    throw error;
  }
}
