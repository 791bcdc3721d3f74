import type { Knex } from 'knex';
import pg from 'pg';
import { isWriteWhileReading } from './database-errors.ts';
import { goesThroughPooler } from './pooler.ts';
import { TRANSACTION_LIMITS, type Db } from './pool.ts';
import { send, type Statement } from './statement.ts';
import type { TenantScope } from './tenant-scope.ts';

declare const opened: unique symbol;
/** A transaction that `withTenant` or `withSystem` opened: nothing else makes one, so nothing queries without a scope. */
export type Tx = Knex.Transaction & { readonly [opened]: true };

/**
 * Opens a transaction that sees what `tenant` may see.
 * @param readOnly  refuses writes, and returns before the commit, which then cannot change anything
 */
export async function withTenant<T>(
  db: Knex,
  tenant: TenantScope,
  work: (tx: Tx) => PromiseLike<T>,
  { readOnly = false }: { readOnly?: boolean } = {},
): Promise<T> {
  return open(db, { sees: tenantSettings(tenant), readOnly }, work);
}

/**
 * Opens a transaction across tenants: to find whose a credential is, for sweeps, and for nothing else.
 * @param _why  for the reader, and for the contract test that counts these
 */
export async function withSystem<T>(db: Knex, _why: string, work: (tx: Tx) => PromiseLike<T>): Promise<T> {
  return open(db, { sees: AS_SYSTEM, readOnly: false }, work);
}

/**
 * Takes the lock of this name, and keeps it until the transaction ends. Another transaction that takes the same name
 * waits.
 */
export async function lockByName(tx: Tx, name: string): Promise<void> {
  await tx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [name]);
}

/**
 * Runs one prepared statement in a transaction of its own across tenants, past Knex: for what is run many times a
 * second. A transaction of Knex makes some 20 kB of functions, which live until the next major collection
 * (docs/decisions/agent-wire.md).
 * @param isFinal  whether the effect of the statement is to stay, by the rows that it returns
 * @returns `undefined` if it is undone
 */
export async function withSystemStatement<Row extends object>(
  db: Knex,
  _why: string,
  statement: Statement & { values: readonly unknown[] },
  isFinal: (rows: readonly Row[]) => boolean,
): Promise<Row[] | undefined> {
  return alone<Row[] | undefined>(db, async (run) => {
    const rows = await run<Row>(statement);
    return isFinal(rows) ? { kept: rows } : { undone: undefined };
  });
}

type Run = <Row extends object>(statement: Statement & { values: readonly unknown[] }) => Promise<Row[]>;

/** The same for statements of which the later ones follow from what the earlier ones return, without a wait in between. */
export async function withSystemStatements<T>(
  db: Knex,
  _why: string,
  work: (run: Run) => Promise<T>,
): Promise<T> {
  return alone(db, async (run) => ({ kept: await work(run) }));
}

async function alone<T>(db: Knex, work: (run: Run) => Promise<{ kept: T } | { undone: T }>): Promise<T> {
  const connection = (await db.client.acquireConnection()) as PooledClient;
  const run: Run = async <Row extends object>({
    values,
    ...statement
  }: Statement & { values: readonly unknown[] }) =>
    (await send<Row>(connection, { ...statement, values: [...values] })).rows;
  try {
    await send(connection, { text: beginText('begin', AS_SYSTEM, connection) });
    const done = await work(run);
    await send(connection, { text: 'kept' in done ? 'commit' : 'rollback' });
    return 'kept' in done ? done.kept : done.undone;
  } catch (error) {
    await send(connection, { text: 'rollback' }).catch((stuck: Error) => {
      // The rest of the transaction must not reach another caller.
      connection.__knex__disposed = stuck;
    });
    throw error;
  } finally {
    await db.client.releaseConnection(connection);
  }
}

/** Knex closes a connection that carries this mark instead of handing it out again. */
type PooledClient = pg.Client & { __knex__disposed?: Error };

/**
 * Opens a transaction that may prune the audit trail.
 * @param session  of AUDIT_ADMIN_DATABASE_URL: the roles that serve cannot become that one
 */
export async function withAuditAdmin<T>(session: Knex, work: (tx: Tx) => PromiseLike<T>): Promise<T> {
  return open(session, { sees: AS_AUDIT_ADMIN, readOnly: false }, work);
}

// Sealing waits for the lock that is held here.
const AS_AUDIT_ADMIN =
  "set local role svc_audit_admin; set local lock_timeout = '10s'; set local statement_timeout = '30s'; set local idle_in_transaction_session_timeout = '10s'";

const AS_SYSTEM = 'set local role svc_system';

function tenantSettings(tenant: TenantScope): string {
  if (tenant.scope === 'system') return AS_SYSTEM;
  const settings = {
    'app.user_id': tenant.userId ?? '',
    'app.partner_id': tenant.partnerId ?? '',
    'app.org_access': tenant.orgAccess,
    'app.org_ids': `{${tenant.orgIds.join(',')}}`,
  };
  const calls = Object.entries(settings).map(
    ([name, value]) => `set_config('${name}', ${pg.escapeLiteral(value)}, true)`,
  );
  return `select ${calls.join(', ')}`;
}

/** The undocumented part of Knex's transaction object that sends BEGIN, on the turn after it was made. */
interface Opening extends PromiseLike<unknown> {
  begin(connection: pg.ClientBase): Promise<unknown>;
  query(connection: pg.ClientBase, sql: string): Promise<unknown>;
}

async function open<T>(
  db: Knex,
  { sees, readOnly }: { sees: string; readOnly: boolean },
  work: (tx: Tx) => PromiseLike<T>,
): Promise<T> {
  // One message instead of two. Were it not sent, nothing would be visible: no setting, no rows.
  const begin = beginning(readOnly ? 'begin read only' : 'begin', sees);
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(async (trx) => {
      const result = await work(trx as Tx);
      if (readOnly) resolve(result);
      return result;
    }) as Promise<T> & Opening;
    transaction.begin = begin;
    transaction.then(resolve, (error: unknown) =>
      // A fault of ours, which on a standby would look like a database that is away.
      reject(
        readOnly && isWriteWhileReading(error)
          ? new Error('A transaction that only reads has tried to write.', { cause: error })
          : error,
      ),
    );
  });
}

/** Made here, where the caller's work is out of sight (docs/decisions/agent-wire.md). */
function beginning(command: string, sees: string): Opening['begin'] {
  return function begin(this: Opening, connection) {
    return this.query(connection, beginText(command, sees, connection));
  };
}

/** A pooler's session has not the limits of ours. What `sees` sets comes later, and wins. */
const beginText = (command: string, sees: string, connection: pg.ClientBase) =>
  goesThroughPooler(connection) ? `${command}; ${TRANSACTION_LIMITS}; ${sees}` : `${command}; ${sees}`;

/** Part of a transaction, which is undone if it fails. The rest of the transaction then still counts. */
export const withSavepoint = <T>(tx: Tx, work: (part: Tx) => Promise<T>): Promise<T> =>
  tx.transaction((part) => work(part as Tx));

/**
 * Runs it as it stands, past Knex: for the few statements that are run so often that building them counts. In a
 * transaction it sees what the transaction sees; on the pool, without a tenant, nothing but what it is let at by a
 * function of the database.
 */
export async function runPrepared<Row extends object>(
  on: Db | Tx,
  statement: Statement,
  values: readonly unknown[],
): Promise<Row[]> {
  // The connection may already serve another tenant.
  if (on.isTransaction === true && 'isCompleted' in on && on.isCompleted()) {
    throw new Error(`the transaction was over before ${statement.name}`);
  }
  const connection = (await on.client.acquireConnection()) as pg.Client;
  try {
    return (await send<Row>(connection, { ...statement, values: [...values] })).rows;
  } finally {
    await on.client.releaseConnection(connection);
  }
}
