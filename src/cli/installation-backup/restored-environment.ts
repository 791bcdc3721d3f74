import { environmentText } from '../../config.ts';
import type { Manifest } from './archive/manifest.ts';
import type { Keys } from './archive/sealed-keys.ts';

/** Names of places that a new machine may have elsewhere. */
const OF_THE_MACHINE =
  /^(DATABASE_URL|DATABASE_URL_APP|DATABASE_URL_SESSION|AUDIT_ADMIN_DATABASE_URL|REDIS_URL|DATA_DIR|HOST|PORT|NODE_ID|SVC_APP_DB_PASSWORD|POSTGRES_PASSWORD)$/;

/** The environment that an installation had, with its keys also where they were in files. */
export function restoredEnvironment(keys: Keys, { id, createdAt }: Manifest): string {
  const { environment, encryptionKey, jwtSecret, oldEncryptionKeys } = keys;
  const values = { ...environment, JWT_SECRET: jwtSecret, SECRET_ENCRYPTION_KEY: encryptionKey };
  const old =
    oldEncryptionKeys.length === 0 ? {} : { SECRET_ENCRYPTION_KEYS_OLD: oldEncryptionKeys.join(',') };
  const places = Object.keys(values).filter((name) => OF_THE_MACHINE.test(name));
  return environmentText(
    [
      `The environment of the installation in the backup ${id} of ${createdAt}.`,
      ...(places.length === 0 ? [] : [`Check what may differ on this machine: ${places.join(', ')}.`]),
    ],
    { ...values, ...old },
  );
}
