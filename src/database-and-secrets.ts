import type { Config } from './config.ts';
import type { EmbeddedPostgres } from './platform/db/embedded/index.ts';
import { ownSecret } from './platform/secrets/own-files.ts';

/**
 * How an installation is reached: by the server, and by commands beside it, which must not load the server for that.
 */

/** The keys of the embedded default, as files of the data folder. */
export const ENCRYPTION_KEY_FILE = 'secret-encryption-key';
export const JWT_SECRET_FILE = 'jwt-secret';

/** The database URLs and secrets: from the environment, or from the data folder on the embedded default. */
export async function resolveDatabaseAndSecrets(
  config: Config,
  embedded: Pick<EmbeddedPostgres, 'ownerUrl'> | undefined,
) {
  if (config.database.kind === 'external') {
    // `readConfig` refuses an external database without the two secrets.
    return {
      database: { ...config.database, auditAdminUrl: config.auditAdminUrl },
      jwtSecret: config.jwtSecret ?? '',
      secretKeys: { current: config.encryptionKey ?? '', old: config.oldEncryptionKeys },
    };
  }
  if (embedded === undefined) throw new Error('the embedded database was not started');
  const { ownerUrl } = embedded;
  const as = async (role: string, secret: string) => {
    const url = new URL(ownerUrl);
    url.username = role;
    url.password = await ownSecret(config.dataDir, secret);
    return url.href;
  };
  return {
    database: {
      ownerUrl,
      appUrl: await as('svc_app', 'svc-app-password'),
      auditAdminUrl: config.auditAdminUrl ?? (await as('svc_audit_admin', 'svc-audit-admin-password')),
    },
    jwtSecret: config.jwtSecret ?? (await ownSecret(config.dataDir, JWT_SECRET_FILE)),
    secretKeys: {
      current: config.encryptionKey ?? (await ownSecret(config.dataDir, ENCRYPTION_KEY_FILE)),
      old: config.oldEncryptionKeys,
    },
  };
}
