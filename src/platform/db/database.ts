import type { Knex } from 'knex';
import type { Logger } from '../logger.ts';
import { migrate, pendingMigrations } from './migrations/migrations.ts';
import { openPool, openSession } from './pool.ts';
import { APP_ROLE, assertSafeRole, AUDIT_ADMIN_ROLE, provisionRole } from './roles.ts';

export interface Database {
  /** For requests of people. */
  pool: Knex;
  /** For the live side, so that a storm of agents leaves people their connections. */
  hubPool: Knex;
  /** For what background jobs do, so that they neither wait for requests nor take their connections. */
  jobPool: Knex;
  /** For the backup store, so that a fleet that backs up leaves all others their connections. */
  storePool: Knex;
  /** For claiming jobs and renewing their leases, which must not wait for what the jobs do. */
  queuePool: Knex;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** The owner's connection; absent where the operator migrates by other means. */
  ownerUrl: string | undefined;
  appUrl: string;
  /** Of the role that prunes the audit trail; absent where that is not wanted. */
  auditAdminUrl?: string | undefined;
  autoMigrate: boolean;
  poolSize: number;
  log: Logger;
}

export class PendingMigrationsError extends Error {
  constructor(names: string[]) {
    super(
      `The database lacks ${names.join(', ')}. Apply them with "npx knex migrate:latest", or start with AUTO_MIGRATE=true.`,
    );
    this.name = 'PendingMigrationsError';
  }
}

/** Connections of the live side, beside so many for requests. */
export const hubPoolSize = (poolSize: number) => Math.max(2, Math.ceil(poolSize / 2));

const JOB_POOL_SIZE = 4;
const QUEUE_POOL_SIZE = 2;
const STORE_POOL_SIZE = 4;

/** Migrates where asked to, then opens the pools that serve, and refuses if what they serve from is unsafe. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { ownerUrl, appUrl } = options;
  if (options.autoMigrate && ownerUrl !== undefined) await migrateAsOwner(ownerUrl, options);

  const pool = openPool(appUrl, { max: options.poolSize, name: 'muster' });
  const hubPool = openPool(appUrl, { max: hubPoolSize(options.poolSize), name: 'muster-hub' });
  const jobPool = openPool(appUrl, { max: JOB_POOL_SIZE, name: 'muster-jobs' });
  const queuePool = openPool(appUrl, { max: QUEUE_POOL_SIZE, name: 'muster-queue' });
  const storePool = openPool(appUrl, { max: STORE_POOL_SIZE, name: 'muster-store' });
  const close = async () => {
    await Promise.all([pool, hubPool, jobPool, queuePool, storePool].map((each) => each.destroy()));
  };
  try {
    // The role first: one that may see nothing would find every migration missing.
    await assertSafeRole(pool);
    const pending = await pendingMigrations(pool);
    if (pending.length > 0) throw new PendingMigrationsError(pending);
  } catch (error) {
    await close();
    throw error;
  }
  return { pool, hubPool, jobPool, queuePool, storePool, close };
}

async function migrateAsOwner(
  ownerUrl: string,
  { appUrl, auditAdminUrl, log }: DatabaseOptions,
): Promise<void> {
  const owner = openSession(ownerUrl, 'muster-migrate');
  const lockSession = openSession(ownerUrl, 'muster-migrate-lock');
  try {
    const applied = await migrate(owner, lockSession);
    if (applied.length > 0) log.info({ applied }, 'database.migrated');
    await provisionRole(owner, appUrl, APP_ROLE);
    if (auditAdminUrl !== undefined) await provisionRole(owner, auditAdminUrl, AUDIT_ADMIN_ROLE);
  } finally {
    await owner.destroy();
    await lockSession.destroy();
  }
}
