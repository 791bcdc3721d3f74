import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { MIGRATIONS_DIR } from './migrations.ts';
import { isOnline } from './online-migration.ts';

/** What an operator wants to know of a migration before it is applied. */
export interface MigrationNote {
  name: string;
  /** It runs beside everything else, however long it takes. */
  isOnline: boolean;
  /** Tables that exist already and that it locks, each for at most 300 ms before it gives way and tries again. */
  locks: string[];
  /** It removes or renames something, so that an older release might miss it. */
  contracts: boolean;
}

export function migrationNotes(
  names: readonly string[],
  directory = MIGRATIONS_DIR,
): Promise<MigrationNote[]> {
  return Promise.all(
    names.map(async (name) => ({ name, ...noteOf(await readFile(path.join(directory, name), 'utf8')) })),
  );
}

const NAME = String.raw`(?:public\.)?"?(\w+)"?`;
const LOCKING = [
  `^alter table (?:if exists )?(?:only )?${NAME}`,
  `^drop table (?:if exists )?${NAME}`,
  `^create (?:unique )?index .*? on ${NAME}`,
  `^create (?:constraint )?trigger .*? on ${NAME}`,
  `^(?:update|delete from|lock table|truncate) (?:only )?${NAME}`,
].map((form) => new RegExp(form, 'i'));
const CONTRACTING =
  /^drop (table|function|view|type|column)|^alter table .*\b(drop column|rename (to|column))\b/i;

/** From the text alone. The bodies of functions run later, if at all. */
export function noteOf(sql: string): Omit<MigrationNote, 'name'> {
  const statements = sql
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/\$(\w*)\$[\s\S]*?\$\1\$/g, "''")
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').trim());
  const made = new Set(
    statements.flatMap((one) => new RegExp(`^create table ${NAME}`, 'i').exec(one)?.[1] ?? []),
  );
  const touched = statements.flatMap((one) => {
    const table = LOCKING.map((form) => form.exec(one)?.[1]).find((name) => name !== undefined);
    return table === undefined || made.has(table) ? [] : [table];
  });
  const online = isOnline(sql);
  return {
    isOnline: online,
    locks: online ? [] : [...new Set(touched)].sort(),
    contracts: statements.some((one) => CONTRACTING.test(one)),
  };
}
