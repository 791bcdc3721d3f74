import { type Config, readConfig } from '../config.ts';
import { resolveDatabaseAndSecrets } from '../database-and-secrets.ts';
import { type DatabaseUrls, openDatabase } from '../platform/db/database.ts';
import { hasCluster, runningEmbeddedPostgres, startEmbeddedPostgres } from '../platform/db/embedded/index.ts';
import type { Db } from '../platform/db/pool.ts';
import { createLogger, type Logger } from '../platform/logger.ts';
import { createSealer, type Sealer, type SecretKeys } from '../platform/secrets/sealed.ts';
import type { CommandIo } from './io.ts';

export interface Installation {
  db: Db;
  /** Of the role that prunes the audit trail. */
  auditAdminUrl: string | undefined;
  secrets: Sealer;
  log: Logger;
  config: Config;
}

/** How to reach an installation, before its database is opened. */
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
 * The log of a command, beside its remarks: standard output is for the result, which programs read. What a server would
 * log at `info` is left out.
 */
export const logOf = ({ stderr }: CommandIo, { logLevel }: Config): Logger =>
  createLogger(logLevel === 'info' ? 'warn' : logLevel, stderr);

/** Whether there is a database to open: the embedded one is created by the first start of a server. */
export async function hasDatabase({ database, dataDir }: Config): Promise<boolean> {
  return database.kind === 'external' || (await hasCluster(dataDir));
}

/** Finds the database of this installation for a command beside the server; an embedded one is started where it is not running. */
export async function withAccess<T>(
  io: CommandIo,
  work: (access: InstallationAccess) => Promise<T>,
): Promise<T> {
  const config = configOf(io);
  const log = logOf(io, config);
  const { dataDir } = config;
  const isEmbedded = config.database.kind === 'embedded';
  // Where the server runs, its Postgres stays its own: we are a guest there.
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
 * @param migrates  applies pending migrations first, where the configuration lets a start do so
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
        secrets: createSealer(secretKeys),
        log,
        config,
      });
    } finally {
      await database.close();
    }
  });
}
