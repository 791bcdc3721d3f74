import { z } from 'zod';
import { defineArea } from './area.ts';
import { flag, postgresUrl, whole } from './variables.ts';

export type DatabaseChoice =
  | { kind: 'embedded' }
  | {
      kind: 'external';
      ownerUrl: string | undefined;
      appUrl: string;
      sessionUrl?: string;
    };

/** Postgres, embedded or external, and Redis. */
export const databaseArea = defineArea({
  variables: {
    DATABASE_URL: postgresUrl.describe(
      'Owner of the database, for migrations. Absent: Muster runs its own Postgres.',
    ),
    DATABASE_URL_APP: postgresUrl.describe('The unprivileged role that serves requests.'),
    DATABASE_URL_SESSION: postgresUrl.describe(
      'Where DATABASE_URL_APP leads to a connection pooler in transaction mode, such as PgBouncer: the same role and database at Postgres itself, for the few connections that listen.',
    ),
    SVC_APP_DB_PASSWORD: z
      .string()
      .min(1)
      .optional()
      .describe('Password of svc_app, where DATABASE_URL_APP is absent.'),
    POSTGRES_PASSWORD: z
      .string()
      .min(1)
      .optional()
      .describe('Used for svc_app where the two above are absent.'),
    AUDIT_ADMIN_DATABASE_URL: postgresUrl.describe(
      'The role svc_audit_admin, which removes expired audit entries. Absent: with DATABASE_URL they are kept for ever; the embedded database has its own.',
    ),
    REDIS_URL: z
      .url({ protocol: /^rediss?$/, error: 'must be a URL such as redis://127.0.0.1:6379' })
      .optional()
      .describe('Redis, through which several servers work together. Absent: this server runs alone.'),
    DATABASE_POOL_SIZE: whole(10, 1, 500).describe(
      'Connections for requests; the live side has half as many more, and background jobs have six.',
    ),
    AUTO_MIGRATE: flag(true).describe('Apply migrations at start.'),
  },
  fromFile: [
    'DATABASE_URL',
    'DATABASE_URL_APP',
    'DATABASE_URL_SESSION',
    'SVC_APP_DB_PASSWORD',
    'POSTGRES_PASSWORD',
    'AUDIT_ADMIN_DATABASE_URL',
    'REDIS_URL',
  ],
  conflicts(values) {
    const names = ['DATABASE_URL_APP', 'SVC_APP_DB_PASSWORD', 'POSTGRES_PASSWORD'];
    if (values['DATABASE_URL'] === undefined) {
      if (values['DATABASE_URL_SESSION'] === undefined || values['DATABASE_URL_APP'] !== undefined) return [];
      return [
        'set DATABASE_URL_APP as well where DATABASE_URL_SESSION is set: it is the same role and database',
      ];
    }
    if (names.some((name) => values[name] !== undefined)) return [];
    return [
      'set one of DATABASE_URL_APP, SVC_APP_DB_PASSWORD or POSTGRES_PASSWORD: requests are served by the unprivileged role svc_app, not by the owner in DATABASE_URL',
    ];
  },
  settings: (env) => ({
    database: databaseChoice(env),
    /** Undefined: the embedded database provides one, and an external one has none. */
    auditAdminUrl: env.AUDIT_ADMIN_DATABASE_URL,
    databasePoolSize: env.DATABASE_POOL_SIZE,
    /** Undefined: this process does in memory what Redis does for several. */
    redisUrl: env.REDIS_URL,
    autoMigrate: env.AUTO_MIGRATE,
  }),
});

interface DatabaseVariables {
  DATABASE_URL?: string | undefined;
  DATABASE_URL_APP?: string | undefined;
  DATABASE_URL_SESSION?: string | undefined;
  SVC_APP_DB_PASSWORD?: string | undefined;
  POSTGRES_PASSWORD?: string | undefined;
}

function databaseChoice({
  DATABASE_URL: ownerUrl,
  DATABASE_URL_APP: givenUrl,
  DATABASE_URL_SESSION,
  SVC_APP_DB_PASSWORD,
  POSTGRES_PASSWORD,
}: DatabaseVariables): DatabaseChoice {
  const session = DATABASE_URL_SESSION === undefined ? {} : { sessionUrl: DATABASE_URL_SESSION };
  if (givenUrl !== undefined) return { kind: 'external', ownerUrl, appUrl: givenUrl, ...session };
  if (ownerUrl === undefined) return { kind: 'embedded' };
  const appUrl = new URL(ownerUrl);
  appUrl.username = 'svc_app';
  appUrl.password = encodeURIComponent(SVC_APP_DB_PASSWORD ?? POSTGRES_PASSWORD ?? '');
  return { kind: 'external', ownerUrl, appUrl: appUrl.href, ...session };
}
