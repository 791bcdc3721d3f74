import { type Config, readConfig } from '../config.ts';
import { resolveDatabaseAndSecrets } from '../database-and-secrets.ts';
import { type DatabaseUrls, openDatabase } from '../platform/db/database.ts';
import { hasCluster, runningEmbeddedPostgres, startEmbeddedPostgres } from '../platform/db/embedded/index.ts';
import type { Db } from '../platform/db/pool.ts';
import { createLogger, type Logger } from '../platform/logger.ts';
import { createEncryptor, type Encryptor, type SecretKeys } from '../platform/secrets/sealed.ts';
import type { CommandIo } from './io.ts';
import { createAuditTrail } from '../features/audit/index.ts';
import type { Tx } from '../platform/db/transaction.ts';
import type { AuditNote } from '../platform/http/route.ts';
import { clock } from '../clock.ts';
import type { Caller, Context } from '../platform/context.ts';
import { newId } from '../platform/ids.ts';

/** Records the operator's action on the command line, in the audit trail outside of all tenants. */
export const recordAsOperator = (
  tx: Tx,
  log: Logger,
  note: AuditNote & { action: string; resourceType: string },
) =>
  // The entry is sealed by a running server, or by the next one that starts.
  createAuditTrail({ wake() {} }).record(tx, {
    ...note,
    actor: { kind: 'system', scope: 'system', orgId: null, partnerId: null },
    state: { client: { ip: null, userAgent: null }, log },
  });

export interface Installation {
  db: Db;
  /** The URL of the role that prunes the audit trail. */
  auditAdminUrl: string | undefined;
  secrets: Encryptor;
  log: Logger;
  config: Config;
}

/** The access to an installation, before its database is opened. */
export interface InstallationAccess {
  config: Config;
  log: Logger;
  database: DatabaseUrls;
  jwtSecret: string;
  secretKeys: SecretKeys;
}

/** The configuration of this installation. Throws a `ConfigError` that lists every fault. */
export const configOf = ({ env, cwd }: CommandIo): Config => readConfig({ environment: env, folder: cwd });

/**
 * The log of a command, on standard error: standard output is for the result, which programs read. Messages at `info`
 * are left out.
 */
export const logOf = ({ stderr }: CommandIo, { logLevel }: Config): Logger =>
  createLogger(logLevel === 'info' ? 'warn' : logLevel, stderr);

/** Whether there is a database to open: the first start of a server creates the embedded one. */
export async function hasDatabase({ database, dataDir }: Config): Promise<boolean> {
  return database.kind === 'external' || (await hasCluster(dataDir));
}

/** Finds the database of this installation for a command beside the server; an embedded one is started unless it runs. */
export async function withAccess<T>(
  io: CommandIo,
  work: (access: InstallationAccess) => Promise<T>,
): Promise<T> {
  const config = configOf(io);
  const log = logOf(io, config);
  const { dataDir } = config;
  const isEmbedded = config.database.kind === 'embedded';
  // If the server runs, it owns its Postgres, and this command only connects.
  const running = isEmbedded ? await runningEmbeddedPostgres(dataDir) : undefined;
  const started =
    isEmbedded && running === undefined ? await startEmbeddedPostgres({ dataDir, log }) : undefined;
  try {
    const access = await resolveDatabaseAndSecrets(config, running ?? started);
    return await work({ ...access, config, log });
  } finally {
    await started?.stop();
  }
}

/**
 * Opens the database of this installation for a command beside the server, and closes it again.
 * @param migrates  applies pending migrations first, if the configuration allows a start to do so
 */
export function withInstallation<T>(
  io: CommandIo,
  { migrates }: { migrates: boolean },
  work: (installation: Installation) => Promise<T>,
): Promise<T> {
  return withAccess(io, async ({ database: urls, secretKeys, config, log }) => {
    const database = await openDatabase({
      ...urls,
      autoMigrate: migrates && config.autoMigrate,
      poolSize: 2,
      log,
    });
    try {
      const { auditAdminUrl } = urls;
      return await work({
        db: database.pool,
        auditAdminUrl,
        secrets: createEncryptor(secretKeys),
        log,
        config,
      });
    } finally {
      await database.close();
    }
  });
}

/** A context for functions of features that the command line calls: acts as the given person. */
export const contextAs = (
  tx: Tx,
  log: Logger,
  person: Omit<Caller, 'kind' | 'sessionId' | 'apiKeyId'>,
): Context => ({
  tx,
  log,
  requestId: newId(),
  client: { ip: '127.0.0.1', trusted: true, userAgent: null },
  arrivedAt: clock.monotonic(),
  caller: { ...person, kind: 'user', sessionId: null, apiKeyId: null },
  // Nothing listens here to announcements; servers read the rows.
  afterCommit: () => undefined,
  recordChange: () => undefined,
});
