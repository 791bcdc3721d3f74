import pg from 'pg';
import { clock, type Timer, type TimeSource } from '../../src/clock.ts';
import { asOwner, type TestDatabase } from './test-postgres.ts';

/**
 * Time that a test moves for its process and for one database alike: `now()` and `clock_timestamp()` of that database
 * answer what the test says, so that weeks pass in minutes and nothing that is stored has to be set back. Timers go on
 * with the machine's time: a test that replays weeks calls what they would call.
 */
export interface ReplayedTime {
  now(): number;
  /** Time goes on to this moment. */
  moveTo(at: number): Promise<void>;
  /** Runs a statement as the owner, at that time, in the session that moves it: a replay asks often, and one message is enough. */
  sql<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>;
  /** The process has the time of the machine again. */
  end(): Promise<void>;
}

/** @param database  to which nothing is connected yet */
export async function replayTime(database: TestDatabase, startsAt: number): Promise<ReplayedTime> {
  await asOwner(database.ownerUrl, timeOfTest(startsAt));
  const session = new pg.Client({ connectionString: database.ownerUrl });
  await session.connect();
  let now = startsAt;
  const source: TimeSource = {
    now: () => now,
    monotonic: () => now - startsAt,
    setTimeout: (callback, ms) => former.setTimeout(callback, ms),
    setInterval: (callback, ms) => former.setInterval(callback, ms),
    clear: (timer: Timer | undefined) => former.clear(timer),
  };
  const former = clock.takeTimeFrom(source);
  return {
    now: () => now,
    async moveTo(at) {
      now = at;
      await session.query({
        name: 'move-time',
        text: 'update time_of_test.moment set at = to_timestamp($1::float8 / 1000)',
        values: [at],
      });
    },
    async sql<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []) {
      return (await session.query<Row>(text, values)).rows;
    },
    async end() {
      clock.takeTimeFrom(former);
      await session.end();
    },
  };
}

/**
 * SQL: functions of our own stand before those of Postgres in the search path of the database, and of each function that
 * brings a path. Defaults of columns were bound when the tables were made, so they are bound again.
 */
const timeOfTest = (startsAt: number) => `
  create schema time_of_test;
  create table time_of_test.moment (at timestamptz not null);
  insert into time_of_test.moment values (to_timestamp(${startsAt}::float8 / 1000));
  create function time_of_test.now() returns timestamptz language sql stable as 'select at from time_of_test.moment';
  create function time_of_test.clock_timestamp() returns timestamptz language sql stable
    as 'select at from time_of_test.moment';
  grant usage on schema time_of_test to public;
  grant select on time_of_test.moment to public;
  do $do$
  declare
    found record;
  begin
    execute format('alter database %I set search_path = time_of_test, pg_catalog, public', current_database());
    for found in
      select p.oid::regprocedure as routine from pg_proc p
      where p.pronamespace = 'public'::regnamespace and 'search_path=pg_catalog, public' = any(p.proconfig)
        and p.prosrc ~ '(now|clock_timestamp)[(][)]'
    loop
      execute format('alter function %s set search_path = time_of_test, pg_catalog, public', found.routine);
    end loop;
    for found in
      select d.adrelid::regclass as owner, a.attname as field, pg_get_expr(d.adbin, d.adrelid) as value
      from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
      where pg_get_expr(d.adbin, d.adrelid) like '%now()%' and a.attgenerated = ''
    loop
      execute format('alter table %s alter column %I set default %s', found.owner, found.field,
        replace(found.value, 'now()', 'time_of_test.now()'));
    end loop;
  end
  $do$`;
