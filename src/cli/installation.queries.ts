import type { Db } from '../platform/db/pool.ts';

/** Foreign tables, in a database without Muster's tables. */
export async function foreignTables(owner: Db): Promise<string[]> {
  const { rows } = await owner.raw(
    `select relname::text as name from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
      and not relispartition and relname not like 'knex_migrations%' and relname <> 'muster_migration_checksums'
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    order by relname`,
  );
  return (rows as { name: string }[]).map(({ name }) => name);
}

const MARK = 'restored from the backup ';

/** In the transaction of the rows, so that the mark exists exactly if they do. */
export async function markRestored(tx: Db, id: string): Promise<void> {
  await tx.raw(`comment on table muster_migration_checksums is '${MARK}${id}'`);
}

export async function restoredFrom(owner: Db): Promise<string | undefined> {
  const { rows } = await owner.raw(
    `select obj_description(to_regclass('public.muster_migration_checksums'), 'pg_class') as mark`,
  );
  const mark: unknown = rows[0]?.mark;
  return typeof mark === 'string' && mark.startsWith(MARK) ? mark.slice(MARK.length) : undefined;
}

/** Without statistics, the first statements of a server would be planned for empty tables. */
export async function analyze(owner: Db): Promise<void> {
  await owner.raw('analyze');
}

export async function serverVersion(db: Db): Promise<string> {
  const { rows } = await db.raw<{ rows: { version: string }[] }>(
    `select current_setting('server_version') as version`,
  );
  return String(rows[0]?.version);
}

/** How commits wait for standbys, as the settings of the server have it: sessions may set it otherwise. */
export async function commitSettings(db: Db): Promise<{ standbys: string; commit: string }> {
  const { rows } = await db.raw<{ rows: { name: string; reset_val: string }[] }>(
    `select name, reset_val from pg_settings where name in ('synchronous_standby_names', 'synchronous_commit')`,
  );
  const settings = new Map(rows.map(({ name, reset_val }) => [name, reset_val]));
  return {
    standbys: settings.get('synchronous_standby_names') ?? '',
    commit: settings.get('synchronous_commit') ?? '',
  };
}

/** The clock of the database, in milliseconds since 1970. */
export async function databaseNow(db: Db): Promise<number> {
  const { rows } = await db.raw<{ rows: { now: number }[] }>(
    'select extract(epoch from clock_timestamp())::float8 * 1000 as now',
  );
  return Number(rows[0]?.now);
}
