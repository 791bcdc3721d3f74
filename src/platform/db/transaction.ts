import type { Knex } from 'knex';
import pg from 'pg';
import { goesThroughPooler } from './connections/pooler.ts';
import { TRANSACTION_LIMITS } from './pool.ts';
import { send, type Statement } from './statement.ts';
import type { TenantScope } from './tenant-scope.ts';

declare const opened: unique symbol;
/** A transaction that `withTenant` or `withSystem` opened: nothing else makes one, so nothing queries without a scope. */
export type Tx = Knex.Transaction & { readonly [opened]: true };

/**
 * Opens a transaction that sees what `tenant` may see.
 * @param readOnly  refuses writes, and answers before the commit, which then can change nothing any more
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
 * Runs one prepared statement in a transaction of its own across tenants, past Knex: for what is run many times a
 * second. A transaction of Knex makes some 20 kB of functions, which live until the next major collection
 * (docs/decisions/what-grows-old.md).
 * @param isFinal  whether what the statement has done is to stay, by the rows that it answers
 * @returns `undefined` where it is undone
 */
export async function withSystemStatement<Row extends object>(
  db: Knex,
  _why: string,
  statement: Statement & { values: readonly unknown[] },
  isFinal: (rows: readonly Row[]) => boolean,
): Promise<Row[] | undefined> {
  const connection = (await db.client.acquireConnection()) as PooledClient;
  try {
    await send(connection, { text: beginText('begin', AS_SYSTEM, connection) });
    const { rows } = await send<Row>(connection, { ...statement, values: [...statement.values] });
    const isKept = isFinal(rows);
    await send(connection, { text: isKept ? 'commit' : 'rollback' });
    return isKept ? rows : undefined;
  } catch (error) {
    await send(connection, { text: 'rollback' }).catch((stuck: Error) => {
      // Nobody else may be given what is left of the transaction.
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

/** What Knex's transaction object has beside its documented side: how it sends BEGIN, on the turn after it was made. */
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
    transaction.then(resolve, reject);
  });
}

/** Made here, where the caller's work is out of sight (docs/decisions/what-grows-old.md). */
function beginning(command: string, sees: string): Opening['begin'] {
  return function begin(this: Opening, connection) {
    return this.query(connection, beginText(command, sees, connection));
  };
}

/** A pooler's session has not the limits of ours. What `sees` sets comes later, and wins. */
const beginText = (command: string, sees: string, connection: pg.ClientBase) =>
  goesThroughPooler(connection) ? `${command}; ${TRANSACTION_LIMITS}; ${sees}` : `${command}; ${sees}`;

/** Part of a transaction, which is undone where it fails. The rest of the transaction then still counts. */
export const withSavepoint = <T>(tx: Tx, work: (part: Tx) => Promise<T>): Promise<T> =>
  tx.transaction((part) => work(part as Tx));
