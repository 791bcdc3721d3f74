import type { Knex } from 'knex';
import type { Logger } from '../logger.ts';
import { assertKeepsSession, assertPoolKeepsSession } from './pooler.ts';
import { migrate, pendingMigrations } from './migrations.ts';
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

/** The ways to the database. */
export interface DatabaseUrls {
  /** The owner's; absent if the operator migrates by other means. */
  ownerUrl: string | undefined;
  appUrl: string;
  /** If `appUrl` leads to a pooler in transaction mode: the same role, for connections that need their session. */
  sessionUrl?: string | undefined;
  /** The address for the role that prunes the audit trail; absent if that is not wanted. */
  auditAdminUrl?: string | undefined;
}

export interface DatabaseOptions extends DatabaseUrls {
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

/** Migrates if asked to, then opens the pools that serve, and refuses if what they serve from is unsafe. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { ownerUrl } = options;
  if (options.autoMigrate && ownerUrl !== undefined) await migrateAsOwner(ownerUrl, options);

  const pool = openAppPool(options, { max: options.poolSize, name: 'muster' });
  const hubPool = openAppPool(options, { max: hubPoolSize(options.poolSize), name: 'muster-hub' });
  const jobPool = openAppPool(options, { max: JOB_POOL_SIZE, name: 'muster-jobs' });
  const queuePool = openAppPool(options, { max: QUEUE_POOL_SIZE, name: 'muster-queue' });
  const storePool = openAppPool(options, { max: STORE_POOL_SIZE, name: 'muster-store' });
  const close = async () => {
    await Promise.all([pool, hubPool, jobPool, queuePool, storePool].map((each) => each.destroy()));
  };
  try {
    await assertSessionsKept(pool, options);
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

/** Opens a pool of connections of the serving role. */
export const openAppPool = (
  { appUrl, sessionUrl }: Pick<DatabaseUrls, 'appUrl' | 'sessionUrl'>,
  options: { max: number; name: string },
): Knex => openPool(appUrl, { ...options, throughPooler: sessionUrl !== undefined });

/** The address for connections of the serving role that keep their session, as those that listen do. */
export const sessionUrlOf = ({ appUrl, sessionUrl }: Pick<DatabaseUrls, 'appUrl' | 'sessionUrl'>): string =>
  sessionUrl ?? appUrl;

/** Behind a pooler that shares sessions out, the server would be ready and lose jobs and access changes. */
async function assertSessionsKept(
  pool: Knex,
  { appUrl, sessionUrl, auditAdminUrl }: DatabaseUrls,
): Promise<void> {
  if (sessionUrl === undefined) return assertPoolKeepsSession(pool, appUrl, 'DATABASE_URL_APP');
  await assertKeepsSession(sessionUrl, 'DATABASE_URL_SESSION');
  if (auditAdminUrl !== undefined) await assertKeepsSession(auditAdminUrl, 'AUDIT_ADMIN_DATABASE_URL');
}

async function migrateAsOwner(
  ownerUrl: string,
  { appUrl, sessionUrl, auditAdminUrl, log }: DatabaseOptions,
): Promise<void> {
  const owner = openSession(ownerUrl, 'muster-migrate');
  const lockSession = openSession(ownerUrl, 'muster-migrate-lock');
  try {
    await assertPoolKeepsSession(lockSession, ownerUrl, 'DATABASE_URL');
    const applied = await migrate(owner, lockSession);
    if (applied.length > 0) log.info({ applied }, 'database.migrated');
    // Past the pooler, which would refuse a role for some time after its first sign-in has failed.
    await provisionRole(owner, sessionUrlOf({ appUrl, sessionUrl }), APP_ROLE);
    if (auditAdminUrl !== undefined) await provisionRole(owner, auditAdminUrl, AUDIT_ADMIN_ROLE);
  } finally {
    await owner.destroy();
    await lockSession.destroy();
  }
}
