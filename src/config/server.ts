import { defineArea, addresses, flag, isOn, postgresUrl, redisUrl, whole, secret } from './variables.ts';
import { z } from 'zod';
import { withCredentials } from '../database-url.ts';
import { EmailAddress } from '../email-address.ts';

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

/** The process itself: where it listens, what it is called, what it reports. */
export const processArea = defineArea({
  variables: {
    PORT: whole(3000, 0, 65_535).describe('Port of REST and sockets; 0 takes a free one.'),
    HOST: z
      .union([z.ipv4(), z.ipv6(), z.hostname()], 'must be an address or a host name, such as 127.0.0.1')
      .default('127.0.0.1')
      .describe('Address to listen on; 0.0.0.0 in the image.'),
    DATA_DIR: z
      .string()
      .min(1)
      .default('./data')
      .describe('Folder of the embedded database, generated secrets, mail and agent releases.'),
    NODE_ID: z
      .string()
      .regex(/^[\w.-]{1,64}$/, 'must have 1 to 64 letters, digits, dots, dashes or underscores')
      .optional()
      .describe('Name of this process in a cluster. Absent: generated at each start.'),
    LOG_LEVEL: z
      .enum(['debug', 'info', 'warn', 'error', 'silent'], 'must be debug, info, warn, error or silent')
      .default('info')
      .describe('Least severe level that is logged.'),
    METRICS_TOKEN: z
      .string()
      .min(16, 'must have at least 16 characters')
      .optional()
      .describe('Bearer token for /metrics from elsewhere than loopback.'),
    AGENT_HEARTBEAT_SECONDS: whole(60, 1, 3600).describe(
      'Seconds between the heartbeats of an agent. A device that sends nothing for 2.5 intervals is offline.',
    ),
    AGENT_WIRE: z
      .enum(['direct', 'stock'], 'must be direct or stock')
      .default('direct')
      .describe(
        'How messages of agents are read: directly from their websockets, or by Socket.IO alone, which costs more. A server whose libraries have another shape takes `stock` by itself.',
      ),
    ENABLE_REGISTRATION: flag(true).describe('Partners and users may register by themselves.'),
  },
  fromFile: ['METRICS_TOKEN'],
  settings: (env) => ({
    port: env.PORT,
    host: env.HOST,
    dataDir: env.DATA_DIR,
    nodeId: env.NODE_ID,
    logLevel: env.LOG_LEVEL,
    metricsToken: env.METRICS_TOKEN,
    heartbeatSeconds: env.AGENT_HEARTBEAT_SECONDS,
    agentWire: env.AGENT_WIRE,
    registrationEnabled: env.ENABLE_REGISTRATION,
  }),
});

const publicUrl = z
  .url({ protocol: /^https?$/, error: 'must be a URL such as https://rmm.example.com' })
  .optional();

/** How people reach this server and are reached by it, and the first of them. */
export const peopleArea = defineArea({
  variables: {
    SVC_ADMIN_EMAIL: EmailAddress.optional().describe('First system administrator of an empty database.'),
    SVC_ADMIN_PASSWORD: z
      .string()
      .min(8, 'must have at least 8 characters')
      .optional()
      .describe('Password of that administrator.'),
    PUBLIC_URL: publicUrl.describe(
      'Address under which people reach this server, for links in mails; https makes cookies Secure. Absent: the next two, then the address that it listens on.',
    ),
    PUBLIC_APP_URL: publicUrl.describe('Used where PUBLIC_URL is absent.'),
    DASHBOARD_URL: publicUrl.describe('Used if the two above are absent.'),
    SAML_ENTITY_ID: z
      .string()
      .regex(/^[a-z][a-z0-9+.-]*:[^\s<>"]{1,1000}$/i, 'must be a URI such as https://rmm.example.com/saml')
      .optional()
      .describe(
        'Name under which SAML identity providers know this server. Absent: the address of its metadata.',
      ),
    NODE_ENV: z
      .string()
      .optional()
      .describe('If the three above are absent, `production` makes cookies Secure.'),
    DEPLOYMENT: z
      .enum(['self-hosted', 'hosted'], 'must be self-hosted or hosted')
      .default('self-hosted')
      .describe(
        'The kind of deployment. On a self-hosted server with a single active partner, the login page shows the branding and the single sign-on of that partner.',
      ),
    SMTP_URL: z
      .url({
        protocol: /^smtps?$/,
        error: 'must be a URL such as smtp://user:password@mail.example.com:587',
      })
      .optional()
      .describe('Mail server. Absent: mails are written to the folder mail of DATA_DIR.'),
    SMTP_FROM: z
      .string()
      .regex(/^[^\r\n]*[^\s@]+@[^\s@]+$/, 'must be an address such as Muster <muster@example.com>')
      .default('Muster <muster@localhost>')
      .describe('Sender of mails.'),
  },
  fromFile: ['SVC_ADMIN_PASSWORD', 'SMTP_URL'],
  conflicts: (values) =>
    (values['SVC_ADMIN_EMAIL'] === undefined) === (values['SVC_ADMIN_PASSWORD'] === undefined)
      ? []
      : ['SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD go together; set both or neither'],
  settings(env) {
    const { SVC_ADMIN_EMAIL: email, SVC_ADMIN_PASSWORD: password } = env;
    const url = env.PUBLIC_URL ?? env.PUBLIC_APP_URL ?? env.DASHBOARD_URL;
    return {
      firstAdmin: email !== undefined && password !== undefined ? { email, password } : undefined,
      publicUrl: url,
      samlEntityId: env.SAML_ENTITY_ID,
      isSelfHosted: env.DEPLOYMENT === 'self-hosted',
      // Over http a browser would drop a Secure cookie, and with it every sign-in.
      secureCookies: url === undefined ? env.NODE_ENV === 'production' : new URL(url).protocol === 'https:',
      mail: { smtpUrl: env.SMTP_URL, from: env.SMTP_FROM },
    };
  },
});

type DatabaseChoice =
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
      'Owner of the database, for migrations. Several servers, with commas between them, are searched for the primary. Absent: Muster runs its own Postgres.',
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
    POSTGRES_PASSWORD: z.string().min(1).optional().describe('Used for svc_app if the two above are absent.'),
    AUDIT_ADMIN_DATABASE_URL: postgresUrl.describe(
      'The role svc_audit_admin, which removes expired audit entries. Absent: with DATABASE_URL they are kept for ever; the embedded database has its own.',
    ),
    REDIS_URL: redisUrl
      .optional()
      .describe(
        'Redis, through which several servers work together: one, by Sentinels (redis+sentinel://) or a cluster (redis+cluster://). Absent: this server runs alone.',
      ),
    DATABASE_POOL_SIZE: whole(10, 1, 500).describe(
      'Connections for requests; the live side has half as many more, background jobs six and the backup store four.',
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
  const appUrl = withCredentials(ownerUrl, 'svc_app', SVC_APP_DB_PASSWORD ?? POSTGRES_PASSWORD ?? '');
  return { kind: 'external', ownerUrl, appUrl, ...session };
}

/** Which addresses are trusted: of proxies in front of the server, and of hosts that tenants send it to. */
export const networkArea = defineArea({
  variables: {
    TRUST_PROXY_HEADERS: flag(false).describe('Take the client address from the headers of trusted proxies.'),
    TRUSTED_PROXY_CIDRS: addresses('127.0.0.1,10.0.0.0/8')
      .optional()
      .describe('The proxies in front of this server, addresses or ranges, separated by commas.'),
    TRUST_CF_CONNECTING_IP: flag(false).describe(
      'The proxies are behind the CDN that sets cf-connecting-ip.',
    ),
    SSO_ALLOWED_PRIVATE_CIDRS: addresses('10.1.2.3,10.8.0.0/16')
      .optional()
      .describe(
        'Internal addresses or ranges that single sign-on may connect to. Identity providers at other internal addresses are refused.',
      ),
    WEBHOOK_ALLOWED_PRIVATE_CIDRS: addresses('10.1.2.3,10.8.0.0/16')
      .optional()
      .describe(
        'Internal addresses or ranges that webhooks and notifications may be sent to. Receivers at other internal addresses are refused.',
      ),
    OUTBOUND_DENIED_CIDRS: addresses('192.0.2.10,198.51.100.0/24')
      .optional()
      .describe('Public addresses or ranges that URLs of tenants must not lead to.'),
  },
  conflicts: (values) =>
    isOn(values['TRUST_PROXY_HEADERS']) && values['TRUSTED_PROXY_CIDRS'] === undefined
      ? [
          'TRUSTED_PROXY_CIDRS must name the proxies when TRUST_PROXY_HEADERS is on, such as 127.0.0.1,10.0.0.0/8',
        ]
      : [],
  settings: (env) => ({
    /** The proxies whose headers are believed; empty: none. */
    trustedProxies: env.TRUST_PROXY_HEADERS ? (env.TRUSTED_PROXY_CIDRS ?? []) : [],
    trustCfConnectingIp: env.TRUST_CF_CONNECTING_IP,
    /** Which hosts the URLs of tenants may lead to (docs/decisions/outbound.md). */
    outbound: {
      ssoAllowedPrivate: env.SSO_ALLOWED_PRIVATE_CIDRS ?? [],
      webhookAllowedPrivate: env.WEBHOOK_ALLOWED_PRIVATE_CIDRS ?? [],
      denied: env.OUTBOUND_DENIED_CIDRS ?? [],
    },
  }),
});
