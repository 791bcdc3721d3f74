import type { Knex } from 'knex';
import { readOwnerUrl } from './src/config.ts';
import { prepareMigrations, SqlMigrationSource, KNEX_SETTINGS } from './src/platform/db/migrations.ts';
import { openSession } from './src/platform/db/pool.ts';

/**
 * For the Knex command line on a database of your own (DATABASE_URL):
 *   NODE_OPTIONS='--import tsx' npx knex migrate:latest
 * It takes the same lock and makes the same checks as a server that migrates at start.
 */
const ownerUrl = readOwnerUrl();
// Stays open until the command ends, and the lock with it.
const lockSession = openSession(ownerUrl, 'knex-migrate-lock');

export default async (): Promise<Knex.Config> => {
  await prepareMigrations(lockSession);
  return {
    client: 'pg',
    connection: ownerUrl,
    migrations: { ...KNEX_SETTINGS, migrationSource: new SqlMigrationSource() },
  };
};
