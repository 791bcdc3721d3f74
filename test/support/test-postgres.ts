import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../src/platform/db/embedded/index.ts';
import { migrate } from '../../src/platform/db/migrations.ts';
import { openSession } from '../../src/platform/db/pool.ts';
import { APP_ROLE, AUDIT_ADMIN_ROLE, provisionRole } from '../../src/platform/db/roles.ts';
import { quietLog } from './quiet-log.ts';

/** One embedded Postgres for the whole run; a migrated template in it; a copy of that for each that asks. */

const ROLE_PASSWORD = 'only-for-tests';
const TEMPLATE = 'muster_template';

interface Cluster {
  postgres: EmbeddedPostgres;
  dataDir: string;
}
let cluster: Promise<Cluster> | undefined;
let made = 0;

export interface TestDatabase {
  ownerUrl: string;
  appUrl: string;
  auditAdminUrl?: string | undefined;
  drop(): Promise<void>;
}

/** @param options.durable  of the first call in a run: writes reach the disk, as they do outside of tests */
export async function createTestDatabase(
  options: { migrated?: boolean; durable?: boolean } = {},
): Promise<TestDatabase> {
  const { postgres } = await (cluster ??= startCluster(options.durable ?? false));
  const name = `muster_test_${process.pid}_${++made}`;
  const template = options.migrated === false ? 'template1' : TEMPLATE;
  await asOwner(postgres.ownerUrl, `create database ${name} template ${template}`);
  const ownerUrl = withDatabase(postgres.ownerUrl, name);
  return {
    ownerUrl,
    appUrl: as(APP_ROLE, ownerUrl),
    auditAdminUrl: as(AUDIT_ADMIN_ROLE, ownerUrl),
    drop: async () => void (await asOwner(postgres.ownerUrl, `drop database ${name} with (force)`)),
  };
}

export async function stopTestPostgres(): Promise<void> {
  if (cluster === undefined) return;
  const { postgres, dataDir } = await cluster;
  cluster = undefined;
  await postgres.stop();
  await rm(dataDir, { recursive: true, force: true });
}

/** Runs statements as the owner, a superuser: to look at what no tenant could, and to break things on purpose. */
export async function asOwner<Row extends pg.QueryResultRow>(
  ownerUrl: string,
  sql: string,
  values?: unknown[],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: ownerUrl });
  await client.connect();
  try {
    return (await client.query<Row>(sql, values)).rows;
  } finally {
    await client.end();
  }
}

async function startCluster(durable: boolean): Promise<Cluster> {
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
    for (const role of [APP_ROLE, AUDIT_ADMIN_ROLE] as const) {
      await provisionRole(owner, as(role, templateUrl), role);
    }
  } finally {
    await owner.destroy();
    await lockSession.destroy();
  }
  return { postgres, dataDir };
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
