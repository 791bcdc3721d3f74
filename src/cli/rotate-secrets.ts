import { readConfig } from '../config.ts';
import { SEALED_COLUMNS } from '../features/sealed-columns.ts';
import { openDatabase } from '../platform/db/database.ts';
import { startEmbeddedPostgres } from '../platform/db/embedded/index.ts';
import { createLogger } from '../platform/logger.ts';
import { resealColumn } from '../platform/secrets/reseal.ts';
import { createSealer } from '../platform/secrets/sealed.ts';
import { surroundings } from '../run-server.ts';
import { startFailureText } from '../start-failure.ts';

/**
 * `npm run rotate-secrets`: seals every secret in the database with the newest key. Set the new SECRET_ENCRYPTION_KEY
 * and the old one in SECRET_ENCRYPTION_KEYS_OLD, restart the servers, run this, then drop the old one.
 */
try {
  const config = readConfig();
  const log = createLogger(config.logLevel === 'info' ? 'warn' : config.logLevel);
  const embedded =
    config.database.kind === 'embedded'
      ? await startEmbeddedPostgres({ dataDir: config.dataDir, log })
      : undefined;
  try {
    const { database: urls, secretKeys } = await surroundings(config, embedded);
    const database = await openDatabase({ ...urls, autoMigrate: config.autoMigrate, poolSize: 2, log });
    try {
      const sealer = createSealer(secretKeys);
      for (const column of SEALED_COLUMNS) {
        const { seen, resealed } = await resealColumn(database.pool, sealer, column);
        process.stdout.write(`${column.table}.${column.column}: ${seen} sealed, ${resealed} sealed anew\n`);
      }
    } finally {
      await database.close();
    }
  } finally {
    await embedded?.stop();
  }
} catch (error) {
  process.stderr.write(`The secrets were not rotated. ${startFailureText(error)}\n`);
  process.exitCode = 1;
}
