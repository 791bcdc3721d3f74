import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { startEmbeddedPostgres } from '../../src/platform/db/embedded/index.ts';
import { migrate } from '../../src/platform/db/migrations.ts';
import { openSession } from '../../src/platform/db/pool.ts';
import { APP_ROLE, AUDIT_ADMIN_ROLE, provisionRole } from '../../src/platform/db/roles.ts';
import { quietLog } from './quiet-log.ts';
import { exempt } from './runner/rules.ts';

/**
 * One embedded Postgres for the whole run, with a migrated template database in it; each test that asks gets a copy of
 * the template. `npm test` starts that Postgres for all test processes; a file that is run by itself starts its own.
 */

const ROLE_PASSWORD = 'only-for-tests';
const TEMPLATE = 'muster_template';

/** Names the Postgres that the test runner has started, to the test processes. */
export const TEST_POSTGRES_VARIABLE = 'MUSTER_TEST_POSTGRES';

export interface TestPostgres {
  ownerUrl: string;
  /** Ends the server and removes its files. */
  stop(): Promise<void>;
}
let own: Promise<TestPostgres> | undefined;
let made = 0;

export interface TestDatabase {
  ownerUrl: string;
  appUrl: string;
  sessionUrl?: string | undefined;
  auditAdminUrl?: string | undefined;
  drop(): Promise<void>;
}

/** @param options.durable  of the first call in a run: writes reach the disk, as they do outside of tests */
export async function createTestDatabase(
  options: { migrated?: boolean; durable?: boolean } = {},
): Promise<TestDatabase> {
  const shared = process.env[TEST_POSTGRES_VARIABLE];
  const server =
    shared === undefined
      ? await (own ??= exempt(() => startTestPostgres({ durable: options.durable })))
      : { ownerUrl: shared };
  const name = `muster_test_${process.pid}_${++made}`;
  const template = options.migrated === false ? 'template1' : TEMPLATE;
  // A copy of the files takes half of what a copy through the log does, with the files in memory.
  await asOwner(server.ownerUrl, `create database ${name} template ${template} strategy file_copy`);
  const ownerUrl = withDatabase(server.ownerUrl, name);
  return {
    ownerUrl,
    appUrl: as(APP_ROLE, ownerUrl),
    auditAdminUrl: as(AUDIT_ADMIN_ROLE, ownerUrl),
    drop: () => dropDatabase(server.ownerUrl, name),
  };
}

/** Ends the Postgres that this process has started, if it has. */
export async function stopTestPostgres(): Promise<void> {
  const ending = own;
  own = undefined;
  await (await ending)?.stop();
}

/** Runs statements as the owner, a superuser: to look at what no tenant could, and to break things on purpose. */
export async function asOwner<Row extends pg.QueryResultRow>(
  ownerUrl: string,
  sql: string,
  values?: unknown[],
): Promise<Row[]> {
  const client = await ownerPool(ownerUrl).connect();
  let isAsNew = false;
  try {
    const { rows } = await client.query<Row>(sql, values);
    await client.query('discard all');
    isAsNew = true;
    return rows;
  } finally {
    client.release(!isAsNew);
  }
}

/**
 * Tests ask thousands of times, and a new connection costs the processor 25 ms on a small virtual machine. What one
 * call has set, or holds, ends with it.
 */
const ownerPools = new Map<string, pg.Pool>();

function ownerPool(ownerUrl: string): pg.Pool {
  const known = ownerPools.get(ownerUrl);
  if (known !== undefined) return known;
  const pool = new pg.Pool({
    connectionString: ownerUrl,
    max: 20,
    idleTimeoutMillis: 1_000,
    allowExitOnIdle: true,
  });
  // A test that ends the server, or every session of a database, has ended this one too.
  pool.on('error', () => {});
  ownerPools.set(ownerUrl, pool);
  return pool;
}

async function dropDatabase(server: string, name: string): Promise<void> {
  const ownerUrl = withDatabase(server, name);
  const pool = ownerPools.get(ownerUrl);
  ownerPools.delete(ownerUrl);
  // Not awaited: a call that a test has left waiting for a lock ends with the database.
  void pool?.end();
  await asOwner(server, `drop database ${name} with (force)`);
}

/** @param options.durable  writes reach the disk */
export async function startTestPostgres({
  durable = false,
}: {
  durable?: boolean | undefined;
} = {}): Promise<TestPostgres> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-test-'));
  // The unprivileged account that Postgres runs under, when we are root, must be able to pass.
  await chmod(dataDir, 0o711);
  const postgres = await startEmbeddedPostgres({ dataDir, log: quietLog, durable });
  await asOwner(postgres.ownerUrl, `create database ${TEMPLATE}`);
  const templateUrl = withDatabase(postgres.ownerUrl, TEMPLATE);
  const owner = openSession(templateUrl, 'test-migrate');
  const lockSession = openSession(templateUrl, 'test-migrate-lock');
  try {
    await migrate(owner, lockSession);
    // The tests open thousands of connections: the cost of guessing a password is not for them.
    await owner.raw('set scram_iterations = 1');
    for (const role of [APP_ROLE, AUDIT_ADMIN_ROLE] as const) {
      await provisionRole(owner, as(role, templateUrl), role);
    }
  } finally {
    await owner.destroy();
    await lockSession.destroy();
  }
  return {
    ownerUrl: postgres.ownerUrl,
    async stop() {
      await postgres.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}

function as(role: string, url: string): string {
  const changed = new URL(url);
  changed.username = role;
  changed.password = ROLE_PASSWORD;
  return changed.href;
}
