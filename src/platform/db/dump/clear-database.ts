import type { Knex } from 'knex';
import { quoted } from './catalogue.ts';

/**
 * Removes every table and function of Muster, so that migrations can begin from nothing. What extensions have put into
 * the same schema, as managed databases do, stays.
 */
export async function clearDatabase(owner: Knex): Promise<void> {
  await owner.transaction(async (tx) => {
    const { rows: tables } = await tx.raw(
      `select c.relname::text as name from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not ${ofExtension('c', 'pg_class')}`,
    );
    const names = (tables as { name: string }[]).map(({ name }) => quoted(name));
    if (names.length > 0) await tx.raw(`drop table ${names.join(', ')} cascade`);
    const { rows: functions } = await tx.raw(
      `select p.oid::regprocedure::text as name from pg_proc p
      where p.pronamespace = 'public'::regnamespace and not ${ofExtension('p', 'pg_proc')}`,
    );
    for (const { name } of functions as { name: string }[]) {
      await tx.raw(`drop function if exists ${name} cascade`);
    }
  });
}

const ofExtension = (alias: string, catalogue: string) =>
  `exists (select from pg_depend d where d.classid = '${catalogue}'::regclass and d.objid = ${alias}.oid and d.deptype = 'e')`;
