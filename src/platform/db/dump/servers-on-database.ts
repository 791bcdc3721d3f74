import type { Knex } from 'knex';

/** The names of connections that only a running server opens. */
const SERVER_CONNECTIONS = [
  'muster-notifications',
  'muster-queue',
  'muster-hub',
  'muster-jobs',
  'muster-store',
];

export async function hasServers(db: Knex): Promise<boolean> {
  const { rows } = await db.raw(
    `select exists (select from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and application_name = any (?)) as present`,
    [SERVER_CONNECTIONS],
  );
  return rows[0]?.present === true;
}
