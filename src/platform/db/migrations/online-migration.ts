import type pg from 'pg';

/**
 * A migration whose first line is `-- online` runs outside a transaction, one statement after the other, because
 * `create index concurrently` refuses a transaction. It can be interrupted at any point and is run again from its first
 * statement, so each statement has to be one that changes nothing the second time.
 */
export const isOnline = (sql: string): boolean => /^-- online\s*$/m.test(sql.slice(0, sql.indexOf('\n') + 1));

const INDEX = /^create (?:unique )?index concurrently if not exists "?(\w+)"? on /i;
const ALLOWED = [INDEX, /^drop index concurrently if exists /i, /^alter table \S+ validate constraint \S+$/i];

/** The statements of an online migration. Throws for one that could block other sessions or could not run again. */
export function onlineStatements(name: string, sql: string): string[] {
  const statements = sql
    .replaceAll(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').trim())
    .filter((statement) => statement !== '');
  for (const statement of statements) {
    if (ALLOWED.some((form) => form.test(statement))) continue;
    throw new Error(
      `Migration ${name} is online, so it may only have "create index concurrently if not exists", ` +
        `"drop index concurrently if exists" and "alter table ... validate constraint", but it has: ${statement}`,
    );
  }
  return statements;
}

/**
 * Runs the statements. They have no time limit: they take only locks that neither reading nor writing waits for, and a
 * large index takes long.
 */
export async function runOnline(connection: pg.ClientBase, statements: readonly string[]): Promise<void> {
  await connection.query('set lock_timeout = 0');
  await connection.query('set statement_timeout = 0');
  try {
    for (const statement of statements) {
      const [, index] = INDEX.exec(statement) ?? [];
      if (index !== undefined) await dropUnfinished(connection, index);
      await connection.query(statement);
    }
  } finally {
    await connection.query('reset lock_timeout');
    await connection.query('reset statement_timeout');
  }
}

/** An index whose build was interrupted stays behind as invalid: it serves nobody, but `if not exists` would keep it. */
async function dropUnfinished(connection: pg.ClientBase, index: string): Promise<void> {
  const { rows } = await connection.query(
    'select from pg_index where indexrelid = to_regclass($1) and not indisvalid',
    [index],
  );
  if (rows.length > 0) await connection.query(`drop index concurrently if exists "${index}"`);
}
