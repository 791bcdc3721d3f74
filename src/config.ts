import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';

/** The environment, read once. A bad value stops the start with a line that names the variable and a good value. */

const YES = ['1', 'true', 'yes', 'on'];
const NO = ['0', 'false', 'no', 'off'];

const flagIsOn = (text: string | undefined) => text !== undefined && YES.includes(text.trim().toLowerCase());

const flag = (byDefault: boolean) =>
  z
    .string()
    .default(String(byDefault))
    .transform((text, context) => {
      const word = text.trim().toLowerCase();
      if (YES.includes(word)) return true;
      if (NO.includes(word)) return false;
      context.addIssue({ code: 'custom', message: `must be one of ${[...YES, ...NO].join(', ')}` });
      return z.NEVER;
    });

const whole = (byDefault: number, min: number, max: number) =>
  z
    .string()
    .default(String(byDefault))
    .transform((text, context) => {
      const value = Number(text);
      if (/^\d+$/.test(text) && value >= min && value <= max) return value;
      context.addIssue({
        code: 'custom',
        message: `must be a whole number from ${min} to ${max}, such as ${byDefault}`,
      });
      return z.NEVER;
    });

const postgresUrl = z
  .url({
    protocol: /^postgres(ql)?$/,
    error: 'must be a URL such as postgres://user:password@127.0.0.1:5432/muster',
  })
  .optional();
const redisUrl = z
  .url({ protocol: /^rediss?$/, error: 'must be a URL such as redis://127.0.0.1:6379' })
  .optional();
const publicUrl = z
  .url({ protocol: /^https?$/, error: 'must be a URL such as https://rmm.example.com' })
  .optional();
const secret = (bytes: number) =>
  z
    .string()
    .min(bytes, `must have at least ${bytes} characters; make one with: openssl rand -base64 48`)
    .optional();
// Old keys are listed with commas between them.
const encryptionKey = secret(32).refine((key) => key?.includes(',') !== true, 'must not contain a comma');

const Address = z.union(
  [z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()],
  'must be an address or a range, such as 10.0.0.0/8',
);

const addresses = (example: string) =>
  z
    .string()
    .transform((text) => text.split(',').map((entry) => entry.trim()))
    .pipe(z.array(Address, `must be addresses or ranges, separated by commas, such as ${example}`));

const Environment = z.object({
  PORT: whole(3000, 0, 65_535).describe('Port of REST and sockets; 0 takes a free one.'),
  HOST: z
    .union([z.ipv4(), z.ipv6(), z.hostname()], 'must be an address or a host name, such as 127.0.0.1')
    .default('127.0.0.1')
    .describe('Address to listen on; 0.0.0.0 in the image.'),
  DATA_DIR: z
    .string()
    .min(1)
    .default('./data')
    .describe('Folder of the embedded database, generated secrets and mail.'),
  DATABASE_URL: postgresUrl.describe(
    'Owner of the database, for migrations. Absent: Muster runs its own Postgres.',
  ),
  DATABASE_URL_APP: postgresUrl.describe('The unprivileged role that serves requests.'),
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
    'The role svc_audit_admin, which removes audit entries whose time is over. Absent: with DATABASE_URL they stay for ever; the embedded default makes its own.',
  ),
  REDIS_URL: redisUrl.describe(
    'Redis, where several servers count limits together. Absent: this one counts by itself.',
  ),
  DATABASE_POOL_SIZE: whole(10, 1, 500).describe(
    'Connections for requests; the live side has half as many more, and background jobs have six.',
  ),
  AUTO_MIGRATE: flag(true).describe('Apply migrations at start.'),
  JWT_SECRET: secret(32).describe('Signs access tokens. Generated into DATA_DIR on the embedded default.'),
  SECRET_ENCRYPTION_KEY: encryptionKey.describe(
    'Seals secrets in the database. Generated into DATA_DIR on the embedded default.',
  ),
  APP_ENCRYPTION_KEY: encryptionKey.describe('Used where SECRET_ENCRYPTION_KEY is absent.'),
  SECRET_ENCRYPTION_KEYS_OLD: z
    .string()
    .default('')
    .transform((text) => text.split(',').flatMap((key) => key.trim() || []))
    .describe('Earlier values of the key, separated by commas, until `npm run rotate-secrets` has run.'),
  AUDIT_ARCHIVE_BUCKET: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket, such as muster-audit')
    .optional()
    .describe('S3 bucket for audit entries that are removed. Absent: there is no archive.'),
  AUDIT_ARCHIVE_ENDPOINT: z
    .url({ protocol: /^https?$/, error: 'must be a URL such as https://s3.eu-central-1.amazonaws.com' })
    .optional()
    .describe('S3-compatible storage of that bucket. Absent: Amazon’s of the region.'),
  AUDIT_ARCHIVE_REGION: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, 'must be a region, such as eu-central-1')
    .default('us-east-1')
    .describe('Region of that bucket.'),
  AUDIT_ARCHIVE_ACCESS_KEY_ID: z
    .string()
    .optional()
    .describe('Key that may write objects to that bucket and read them back.'),
  AUDIT_ARCHIVE_SECRET_ACCESS_KEY: z.string().optional().describe('The secret of that key.'),
  AUDIT_ARCHIVE_PATH_STYLE: flag(true).describe(
    'The bucket is named in the path, which all storage understands, and not in the host.',
  ),
  SVC_ADMIN_EMAIL: z
    .email('must be an e-mail address, such as admin@example.com')
    .optional()
    .describe('First system administrator of an empty database.'),
  SVC_ADMIN_PASSWORD: z
    .string()
    .min(8, 'must have at least 8 characters')
    .optional()
    .describe('Password of that administrator.'),
  PUBLIC_URL: publicUrl.describe(
    'Where people reach this server, for links in mails; https makes cookies Secure. Absent: the next two, then http://localhost and the port.',
  ),
  PUBLIC_APP_URL: publicUrl.describe('Used where PUBLIC_URL is absent.'),
  DASHBOARD_URL: publicUrl.describe('Used where the two above are absent.'),
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
  LOG_LEVEL: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], 'must be debug, info, warn, error or silent')
    .default('info')
    .describe('Least severe level that is logged.'),
  METRICS_TOKEN: z
    .string()
    .min(16, 'must have at least 16 characters')
    .optional()
    .describe('Bearer token for /metrics from elsewhere than loopback.'),
  AGENT_HEARTBEAT_SECONDS: whole(60, 1, 3600).describe('Seconds between the heartbeats of an agent.'),
  ENABLE_REGISTRATION: flag(true).describe('Providers and people may register by themselves.'),
  TRUST_PROXY_HEADERS: flag(false).describe('Take the client address from the headers of trusted proxies.'),
  TRUSTED_PROXY_CIDRS: addresses('127.0.0.1,10.0.0.0/8')
    .optional()
    .describe('The proxies in front of this server, addresses or ranges, separated by commas.'),
  TRUST_CF_CONNECTING_IP: flag(false).describe(
    'The proxies stand behind the CDN that sets cf-connecting-ip.',
  ),
  SSO_ALLOWED_PRIVATE_CIDRS: addresses('10.1.2.3,10.8.0.0/16')
    .optional()
    .describe(
      'Internal addresses or ranges at which identity providers of tenants may be; others are refused.',
    ),
  OUTBOUND_DENIED_CIDRS: addresses('192.0.2.10,198.51.100.0/24')
    .optional()
    .describe('Public addresses or ranges that URLs of tenants must not lead to.'),
  NODE_ID: z
    .string()
    .regex(/^[\w.-]{1,64}$/, 'must have 1 to 64 letters, digits, dots, dashes or underscores')
    .optional()
    .describe('Name of this process in a cluster; made up when absent.'),
  NODE_ENV: z
    .string()
    .optional()
    .describe('production makes cookies Secure where no URL above says what they travel over.'),
});

/** Variables whose value may stand in a file instead, named by the variable with `_FILE` behind it. */
const FROM_FILE = [
  'JWT_SECRET',
  'SECRET_ENCRYPTION_KEY',
  'APP_ENCRYPTION_KEY',
  'SECRET_ENCRYPTION_KEYS_OLD',
  'SVC_APP_DB_PASSWORD',
  'POSTGRES_PASSWORD',
  'SVC_ADMIN_PASSWORD',
  'METRICS_TOKEN',
  'SMTP_URL',
  'DATABASE_URL',
  'DATABASE_URL_APP',
  'AUDIT_ADMIN_DATABASE_URL',
  'AUDIT_ARCHIVE_SECRET_ACCESS_KEY',
  'REDIS_URL',
];

export type DatabaseChoice =
  | { kind: 'embedded' }
  | { kind: 'external'; ownerUrl: string | undefined; appUrl: string };

export interface StorageChoice {
  endpoint: string;
  region: string;
  bucket: string;
  accessKeyId: string;
  secretAccessKey: string;
  pathStyle: boolean;
}

export interface Config {
  port: number;
  host: string;
  dataDir: string;
  database: DatabaseChoice;
  /** Absent: of the embedded database where that is used, or else none. */
  auditAdminUrl: string | undefined;
  /** Absent: audit entries that are removed are copied nowhere. */
  auditArchive: StorageChoice | undefined;
  databasePoolSize: number;
  /** Absent: what Redis does for several processes is done within this one. */
  redisUrl: string | undefined;
  autoMigrate: boolean;
  /** Absent only on the embedded default, where one is generated. */
  jwtSecret: string | undefined;
  /** As `jwtSecret`. */
  encryptionKey: string | undefined;
  oldEncryptionKeys: readonly string[];
  firstAdmin: { email: string; password: string } | undefined;
  publicUrl: string | undefined;
  mail: { smtpUrl: string | undefined; from: string };
  logLevel: string;
  metricsToken: string | undefined;
  heartbeatSeconds: number;
  nodeId: string | undefined;
  secureCookies: boolean;
  registrationEnabled: boolean;
  /** The proxies whose word counts on where a request comes from; empty: nobody's. */
  trustedProxies: readonly string[];
  trustCfConnectingIp: boolean;
  /** Where URLs that tenants supply may lead, beyond and within the public Internet (docs/decisions/outbound.md). */
  outbound: { ssoAllowedPrivate: readonly string[]; denied: readonly string[] };
}

export class ConfigError extends Error {
  constructor(faults: string[]) {
    super(`The environment is not right:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
  }
}

export interface ConfigSource {
  environment?: Readonly<Record<string, string | undefined>>;
  /** Values for what the environment leaves out. */
  defaults?: Readonly<Record<string, string>>;
}

/** Reads and checks the environment; throws a `ConfigError` that lists every fault at once. */
export function readConfig({
  environment = process.env,
  defaults = {},
}: ConfigSource = {}): Readonly<Config> {
  const faults: string[] = [];
  const values = { ...defaults, ...withFiles(environment, faults) };
  const parsed = Environment.safeParse(values);
  if (!parsed.success) {
    faults.push(...parsed.error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`));
  }
  faults.push(...faultsBetween(values));
  if (!parsed.success || faults.length > 0) throw new ConfigError(faults);
  const env = parsed.data;
  const reachedAt = env.PUBLIC_URL ?? env.PUBLIC_APP_URL ?? env.DASHBOARD_URL;
  return Object.freeze({
    port: env.PORT,
    host: env.HOST,
    dataDir: path.resolve(env.DATA_DIR),
    database: chooseDatabase(env),
    auditAdminUrl: env.AUDIT_ADMIN_DATABASE_URL,
    auditArchive: chooseArchive(env),
    databasePoolSize: env.DATABASE_POOL_SIZE,
    redisUrl: env.REDIS_URL,
    autoMigrate: env.AUTO_MIGRATE,
    jwtSecret: env.JWT_SECRET,
    encryptionKey: env.SECRET_ENCRYPTION_KEY ?? env.APP_ENCRYPTION_KEY,
    oldEncryptionKeys: env.SECRET_ENCRYPTION_KEYS_OLD,
    firstAdmin:
      env.SVC_ADMIN_EMAIL !== undefined && env.SVC_ADMIN_PASSWORD !== undefined
        ? { email: env.SVC_ADMIN_EMAIL, password: env.SVC_ADMIN_PASSWORD }
        : undefined,
    publicUrl: reachedAt,
    mail: { smtpUrl: env.SMTP_URL, from: env.SMTP_FROM },
    logLevel: env.LOG_LEVEL,
    metricsToken: env.METRICS_TOKEN,
    heartbeatSeconds: env.AGENT_HEARTBEAT_SECONDS,
    nodeId: env.NODE_ID,
    // Over http a browser would drop a Secure cookie, and with it every sign-in.
    secureCookies:
      reachedAt === undefined ? env.NODE_ENV === 'production' : new URL(reachedAt).protocol === 'https:',
    registrationEnabled: env.ENABLE_REGISTRATION,
    trustedProxies: env.TRUST_PROXY_HEADERS ? (env.TRUSTED_PROXY_CIDRS ?? []) : [],
    trustCfConnectingIp: env.TRUST_CF_CONNECTING_IP,
    outbound: {
      ssoAllowedPrivate: env.SSO_ALLOWED_PRIVATE_CIDRS ?? [],
      denied: env.OUTBOUND_DENIED_CIDRS ?? [],
    },
  });
}

/** For the Knex command line, which needs nothing but the owner of the database. */
export function readOwnerUrl(): string {
  const faults: string[] = [];
  const parsed = Environment.pick({ DATABASE_URL: true }).safeParse(withFiles(process.env, faults));
  if (parsed.success && parsed.data.DATABASE_URL !== undefined) return parsed.data.DATABASE_URL;
  throw new ConfigError([
    ...faults.filter((fault) => fault.startsWith('DATABASE_URL_FILE')),
    'DATABASE_URL must name the owner of the database; the embedded one migrates itself at start',
  ]);
}

/** Empty values count as absent; `X_FILE` gives the value of X. */
function withFiles(
  environment: Readonly<Record<string, string | undefined>>,
  faults: string[],
): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && value !== '') values[name] = value;
  }
  for (const name of FROM_FILE) {
    const file = values[`${name}_FILE`];
    if (file === undefined || values[name] !== undefined) continue;
    try {
      values[name] = readFileSync(file, 'utf8').trim();
    } catch {
      faults.push(`${name}_FILE names ${file}, which cannot be read`);
    }
  }
  return values;
}

/** What variables demand of each other. Told by presence alone, so that a bad value elsewhere does not hide it. */
function faultsBetween(values: Readonly<Record<string, string | undefined>>): string[] {
  const faults: string[] = [];
  const present = (name: string) => values[name] !== undefined;
  if (
    present('DATABASE_URL') &&
    !['DATABASE_URL_APP', 'SVC_APP_DB_PASSWORD', 'POSTGRES_PASSWORD'].some(present)
  ) {
    faults.push(
      'set one of DATABASE_URL_APP, SVC_APP_DB_PASSWORD or POSTGRES_PASSWORD: requests are served by the unprivileged role svc_app, not by the owner in DATABASE_URL',
    );
  }
  if (present('DATABASE_URL') || present('DATABASE_URL_APP')) {
    for (const names of [['JWT_SECRET'], ['SECRET_ENCRYPTION_KEY', 'APP_ENCRYPTION_KEY']]) {
      if (names.some(present)) continue;
      faults.push(`${names[0]} must be set when DATABASE_URL is; make one with: openssl rand -base64 48`);
    }
  }
  if (flagIsOn(values['TRUST_PROXY_HEADERS']) && !present('TRUSTED_PROXY_CIDRS')) {
    faults.push(
      'TRUSTED_PROXY_CIDRS must name the proxies when TRUST_PROXY_HEADERS is on, such as 127.0.0.1,10.0.0.0/8',
    );
  }
  if (present('AUDIT_ARCHIVE_BUCKET')) {
    for (const name of ['AUDIT_ARCHIVE_ACCESS_KEY_ID', 'AUDIT_ARCHIVE_SECRET_ACCESS_KEY']) {
      if (!present(name)) faults.push(`${name} must be set when AUDIT_ARCHIVE_BUCKET is`);
    }
  }
  if (present('SVC_ADMIN_EMAIL') !== present('SVC_ADMIN_PASSWORD')) {
    faults.push('SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD go together; set both or neither');
  }
  return faults;
}

function chooseDatabase(env: z.infer<typeof Environment>): DatabaseChoice {
  const { DATABASE_URL: ownerUrl, DATABASE_URL_APP: givenUrl } = env;
  if (givenUrl !== undefined) return { kind: 'external', ownerUrl, appUrl: givenUrl };
  if (ownerUrl === undefined) return { kind: 'embedded' };
  const appUrl = new URL(ownerUrl);
  appUrl.username = 'svc_app';
  appUrl.password = encodeURIComponent(env.SVC_APP_DB_PASSWORD ?? env.POSTGRES_PASSWORD ?? '');
  return { kind: 'external', ownerUrl, appUrl: appUrl.href };
}

function chooseArchive(env: z.infer<typeof Environment>): StorageChoice | undefined {
  const { AUDIT_ARCHIVE_BUCKET: bucket, AUDIT_ARCHIVE_REGION: region } = env;
  if (bucket === undefined) return undefined;
  return {
    bucket,
    region,
    endpoint: env.AUDIT_ARCHIVE_ENDPOINT ?? `https://s3.${region}.amazonaws.com`,
    // `faultsBetween` refuses a bucket without the two.
    accessKeyId: env.AUDIT_ARCHIVE_ACCESS_KEY_ID ?? '',
    secretAccessKey: env.AUDIT_ARCHIVE_SECRET_ACCESS_KEY ?? '',
    pathStyle: env.AUDIT_ARCHIVE_PATH_STYLE,
  };
}

/** The text of `.env.example`, from the schema above. */
export function environmentExample(): string {
  const lines = ['# Every variable that Muster reads. All are optional on the embedded default.', ''];
  for (const [name, schema] of Object.entries(Environment.shape)) {
    const fallback: unknown = schema instanceof z.ZodDefault ? schema.def.defaultValue : defaultOf(schema);
    lines.push(`# ${schema.description ?? ''}`);
    if (FROM_FILE.includes(name)) lines.push(`# (or ${name}_FILE: a file that holds it)`);
    lines.push(`#${name}=${typeof fallback === 'string' ? fallback : ''}`, '');
  }
  return lines.join('\n');
}

function defaultOf(schema: z.ZodType): unknown {
  const empty = z.object({ value: schema }).safeParse({});
  const value: unknown = empty.success ? empty.data.value : undefined;
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;
}
