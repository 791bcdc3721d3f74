import { z } from 'zod';
import { defineArea } from './area.ts';
import { secret } from './variables.ts';

// Old keys are listed with commas between them.
const encryptionKey = secret(32).refine((key) => key?.includes(',') !== true, 'must not contain a comma');

/** The keys of this installation. The embedded default generates them into DATA_DIR. */
export const secretsArea = defineArea({
  variables: {
    JWT_SECRET: secret(32).describe('Signs access tokens. Generated into DATA_DIR on the embedded default.'),
    SECRET_ENCRYPTION_KEY: encryptionKey.describe(
      'Encrypts secrets in the database. Generated into DATA_DIR on the embedded default.',
    ),
    APP_ENCRYPTION_KEY: encryptionKey.describe('Used where SECRET_ENCRYPTION_KEY is absent.'),
    SECRET_ENCRYPTION_KEYS_OLD: z
      .string()
      .default('')
      .transform((text) => text.split(',').flatMap((key) => key.trim() || []))
      .describe('Earlier values of the key, separated by commas, until `npm run rotate-secrets` has run.'),
  },
  fromFile: ['JWT_SECRET', 'SECRET_ENCRYPTION_KEY', 'APP_ENCRYPTION_KEY', 'SECRET_ENCRYPTION_KEYS_OLD'],
  conflicts(values) {
    const isSet = (name: string) => values[name] !== undefined;
    if (!isSet('DATABASE_URL') && !isSet('DATABASE_URL_APP')) return [];
    return [['JWT_SECRET'], ['SECRET_ENCRYPTION_KEY', 'APP_ENCRYPTION_KEY']]
      .filter((names) => !names.some(isSet))
      .map(([name]) => `${name} must be set when DATABASE_URL is; make one with: openssl rand -base64 48`);
  },
  settings: (env) => ({
    /** Undefined only on the embedded default. */
    jwtSecret: env.JWT_SECRET,
    /** Undefined only on the embedded default. */
    encryptionKey: env.SECRET_ENCRYPTION_KEY ?? env.APP_ENCRYPTION_KEY,
    oldEncryptionKeys: env.SECRET_ENCRYPTION_KEYS_OLD,
  }),
});
