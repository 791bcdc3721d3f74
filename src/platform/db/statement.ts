import type { TenantScope } from './tenant-scope.ts';
import type pg from 'pg';
import { goesThroughPooler } from './pooler.ts';

/**
 * SQL for a column as people sort names: by letters, with accents and case telling apart only what is alike otherwise.
 * The database's own order is of code points: `Zed` before `apple`, `Äpfel` behind all. Names that are equal in it are
 * identical, so behind it there needs to be an id and nothing else.
 */
export const nameOrder = (column: string): string => `${column} collate "und-x-icu"`;

/**
 * SQL: whether a column has one of the forms of an address (`addressForms`), in any capitalization. An index on
 * `lower(column)` serves it.
 *
 * @param forms  a placeholder for the array of the forms
 */
export const hasAddressIn = (column: string, forms: string): string =>
  `lower(${column}) = any(array(select lower(form) from unnest(${forms}::text[]) form))`;

const literally = (text: string) => text.replaceAll(/[\\%_]/g, String.raw`\$&`);

/** The pattern for `like` that finds a text anywhere within another, its own wildcards taken as they are. */
export const containing = (text: string) => `%${literally(text)}%`;

/** And at the beginning of another. */
export const beginningWith = (text: string) => `${literally(text)}%`;

/** The condition that a query on a tenant's table states itself; row level security is the net under it. */
export function inTenant(tenant: TenantScope, column: string): string {
  return tenant.scope === 'system' ? 'true' : `${column} = any((select app_org_ids())::uuid[])`;
}

/**
 * A Postgres array of one dimension, written out. The driver does this for any array, with two replacements for each
 * element and a look at every one beforehand; for columns of a thousand records that is most of what a batch costs here.
 */
export function arrayLiteral(values: readonly (string | number | null)[]): string {
  // Joined as they are, if that can be: no text of its own for each element.
  if (values.every((value) => typeof value === 'number')) return `{${values.join(',')}}`;
  if (values.every(isPlainText)) return `{"${values.join('","')}"}`;
  return `{${values.map(element).join(',')}}`;
}

const NEEDS_ESCAPE = /["\\]/;
const ESCAPED = /["\\]/g;

const isPlainText = (value: string | number | null) => typeof value === 'string' && !NEEDS_ESCAPE.test(value);

function element(value: string | number | null): string {
  if (value === null) return 'NULL';
  return typeof value === 'number' ? String(value) : `"${value.replace(ESCAPED, '\\$&')}"`;
}

/** A statement that Postgres parses and plans once a session. Its parameters are $1, $2, and so on. */
export interface Statement {
  name: string;
  text: string;
}

/**
 * By the driver's callback. With its promise, what a statement was given stays in memory until the next major
 * collection, however short it ran (docs/decisions/agent-wire.md).
 */
export async function send<Row extends object>(
  connection: pg.Client,
  query: pg.QueryConfig,
): Promise<pg.QueryResult<Row>> {
  const sent = goesThroughPooler(connection) ? unprepared(query) : query;
  try {
    return await new Promise((resolve, reject) => {
      connection.query<Row>(sent, (error: Error | null, result) => {
        if (error === null) resolve(result);
        else reject(error);
      });
    });
  } catch (error) {
    // The stack now leads to the caller. Before, it led to the socket that received the answer.
    if (error instanceof Error) Error.captureStackTrace(error);
    throw error;
  }
}

/** Without its name, by which the next session would not know it. */
const unprepared = ({ name: _name, ...query }: pg.QueryConfig): pg.QueryConfig => query;
