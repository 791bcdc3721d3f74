import type { Values } from './environment.ts';
import { defineArea, flag, whole, addresses } from './variables.ts';
import { z } from 'zod';
import path from 'node:path';

const base = (example: string) =>
  z
    .string()
    .regex(/^https?:\/\/[^\s?#@]+$/, `must be a URL such as ${example}`)
    .refine((text) => URL.canParse(text), `must be a URL such as ${example}`)
    .default(example)
    .transform((text) => text.replace(/\/+$/, ''));

/** How this server reaches Microsoft 365. */
export const cloudBackupArea = defineArea({
  variables: {
    C2C_M365_CLIENT_ID: z
      .uuid('must be the id of an application, such as 6f1c3a52-7c1e-4e5e-9d0a-3f5f2a8f9b10')
      .toLowerCase()
      .optional()
      .describe(
        'Application of this server at Microsoft, to which administrators of tenants consent. Absent: each organization registers its own.',
      ),
    C2C_M365_CLIENT_SECRET: z
      .string()
      .min(1)
      .max(1000)
      .optional()
      .describe('The secret of that application.'),
    C2C_GRAPH_URL: base('https://graph.microsoft.com/v1.0').describe(
      'Microsoft Graph with its version; national clouds have others.',
    ),
    C2C_LOGIN_URL: base('https://login.microsoftonline.com').describe(
      'Where access to Microsoft Graph is given; national clouds have others.',
    ),
    C2C_ALLOWED_PRIVATE_CIDRS: addresses('10.1.2.3,10.8.0.0/16')
      .optional()
      .describe('Internal addresses or ranges that these URLs, and files behind them, may lead to.'),
  },
  fromFile: ['C2C_M365_CLIENT_SECRET'],
  conflicts: (values) =>
    values['C2C_M365_CLIENT_ID'] !== undefined && values['C2C_M365_CLIENT_SECRET'] === undefined
      ? ['C2C_M365_CLIENT_SECRET must be set when C2C_M365_CLIENT_ID is']
      : [],
  settings: (env) => ({
    cloudBackup: {
      platformApp:
        env.C2C_M365_CLIENT_ID === undefined
          ? undefined
          : // `conflicts` rejects an id without a secret.
            { clientId: env.C2C_M365_CLIENT_ID, secret: env.C2C_M365_CLIENT_SECRET ?? '' },
      graphUrl: env.C2C_GRAPH_URL,
      loginUrl: env.C2C_LOGIN_URL,
      allowedPrivate: env.C2C_ALLOWED_PRIVATE_CIDRS ?? [],
    },
  }),
});

const NEEDED = ['BACKUP_STORE_S3_ACCESS_KEY_ID', 'BACKUP_STORE_S3_SECRET_ACCESS_KEY'];
const GIB = 2 ** 30;

const quota = (of: string) =>
  z
    .string()
    .regex(/^[1-9]\d{0,6}$/, 'must be a whole number of GiB, such as 500')
    .optional()
    .describe(`GiB that the backups of one ${of} may take in the backup store. Absent: no limit.`);

const hasAbsoluteFolder = (folders: string) =>
  folders.split(path.delimiter).some((folder) => path.isAbsolute(folder));

/** Where the backup store keeps what devices send, and how much. */
export const backupStoreArea = defineArea({
  variables: {
    BACKUP_STORE_S3_BUCKET: z
      .string()
      .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket, such as muster-backups')
      .optional()
      .describe('S3 bucket for the backup store. Absent: the store is in DATA_DIR/backups.'),
    BACKUP_STORE_S3_ENDPOINT: z
      .url({ protocol: /^https?$/, error: 'must be a URL such as https://s3.eu-central-1.amazonaws.com' })
      .optional()
      .describe('S3-compatible storage with that bucket. Absent: Amazon S3 in the region.'),
    BACKUP_STORE_S3_REGION: z
      .string()
      .regex(/^[a-z0-9-]{1,40}$/, 'must be a region, such as eu-central-1')
      .default('us-east-1')
      .describe('Region of that bucket.'),
    BACKUP_STORE_S3_PREFIX: z
      .string()
      .regex(/^[\w-]+(\/[\w-]+)*$/, 'must be a path without a slash at its ends, such as muster/backups')
      .default('backups')
      .describe('Path in that bucket below which the repositories are.'),
    BACKUP_STORE_S3_ACCESS_KEY_ID: z
      .string()
      .optional()
      .describe('Key that may list, read, write and delete objects in that bucket.'),
    BACKUP_STORE_S3_SECRET_ACCESS_KEY: z.string().optional().describe('The secret of that key.'),
    BACKUP_STORE_S3_PATH_STYLE: flag(true).describe(
      'Put the name of the bucket into the path, which every storage understands, instead of the host name.',
    ),
    BACKUP_STORE_TRASH_DAYS: whole(14, 14, 3650).describe(
      'Days for which the backup store keeps what was deleted. Until then it can be served as of an earlier time.',
    ),
    BACKUP_ENGINE_PATH: z
      .string()
      .refine(
        hasAbsoluteFolder,
        'must be absolute paths separated by colons, such as /usr/local/bin:/usr/bin',
      )
      .default('/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin')
      .describe(
        'Folders in which this server looks for restic, and for the nice and ionice that slow it down.',
      ),
    BACKUP_STORE_ORGANIZATION_QUOTA_GIB: quota('organization'),
    BACKUP_STORE_PARTNER_QUOTA_GIB: quota('partner'),
  },
  fromFile: ['BACKUP_STORE_S3_SECRET_ACCESS_KEY'],
  conflicts(values) {
    if (values['BACKUP_STORE_S3_BUCKET'] === undefined) return [];
    return NEEDED.filter((name) => values[name] === undefined).map(
      (name) => `${name} must be set when BACKUP_STORE_S3_BUCKET is`,
    );
  },
  settings: (env) => ({
    backupStore: {
      s3: s3Of(env),
      trashDays: env.BACKUP_STORE_TRASH_DAYS,
      enginePath: env.BACKUP_ENGINE_PATH,
      quota: {
        organizationBytes: bytesOf(env.BACKUP_STORE_ORGANIZATION_QUOTA_GIB),
        partnerBytes: bytesOf(env.BACKUP_STORE_PARTNER_QUOTA_GIB),
      },
    },
  }),
});

const bytesOf = (gib: string | undefined) => (gib === undefined ? undefined : Number(gib) * GIB);

interface S3Variables {
  BACKUP_STORE_S3_BUCKET?: string | undefined;
  BACKUP_STORE_S3_ENDPOINT?: string | undefined;
  BACKUP_STORE_S3_REGION: string;
  BACKUP_STORE_S3_PREFIX: string;
  BACKUP_STORE_S3_ACCESS_KEY_ID?: string | undefined;
  BACKUP_STORE_S3_SECRET_ACCESS_KEY?: string | undefined;
  BACKUP_STORE_S3_PATH_STYLE: boolean;
}

function s3Of({ BACKUP_STORE_S3_BUCKET: bucket, BACKUP_STORE_S3_REGION: region, ...env }: S3Variables) {
  if (bucket === undefined) return undefined;
  return {
    bucket,
    region,
    endpoint: env.BACKUP_STORE_S3_ENDPOINT ?? `https://s3.${region}.amazonaws.com`,
    prefix: env.BACKUP_STORE_S3_PREFIX,
    // `conflicts` rejects a bucket without these two.
    accessKeyId: env.BACKUP_STORE_S3_ACCESS_KEY_ID ?? '',
    secretAccessKey: env.BACKUP_STORE_S3_SECRET_ACCESS_KEY ?? '',
    pathStyle: env.BACKUP_STORE_S3_PATH_STYLE,
  };
}

/** The variables of a bucket in S3-compatible storage, whose names begin with what the bucket is for. */
export const s3Fields = {
  bucket: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket, such as muster-audit')
    .optional(),
  endpoint: z
    .url({ protocol: /^https?$/, error: 'must be a URL such as https://s3.eu-central-1.amazonaws.com' })
    .optional()
    .describe('S3-compatible storage with that bucket. Absent: Amazon S3 in the region.'),
  region: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, 'must be a region, such as eu-central-1')
    .default('us-east-1')
    .describe('Region of that bucket.'),
  accessKeyId: z
    .string()
    .optional()
    .describe('Key that may write objects to that bucket and read them back.'),
  secretAccessKey: z.string().optional().describe('The secret of that key.'),
  pathStyle: flag(true).describe(
    'Put the name of the bucket into the path, which every storage understands, instead of the host name.',
  ),
};

/** A bucket needs a key. */
export function missingKeys(prefix: string, values: Values): string[] {
  if (values[`${prefix}_BUCKET`] === undefined) return [];
  return [`${prefix}_ACCESS_KEY_ID`, `${prefix}_SECRET_ACCESS_KEY`]
    .filter((name) => values[name] === undefined)
    .map((name) => `${name} must be set when ${prefix}_BUCKET is`);
}

type S3Values = { [Field in keyof typeof s3Fields]: z.output<(typeof s3Fields)[Field]> };

/** `undefined` if no bucket is named. */
export function s3Bucket({ bucket, endpoint, region, accessKeyId, secretAccessKey, pathStyle }: S3Values) {
  if (bucket === undefined) return undefined;
  return {
    bucket,
    region,
    endpoint: endpoint ?? `https://s3.${region}.amazonaws.com`,
    // `missingKeys` rejects a bucket without these two.
    accessKeyId: accessKeyId ?? '',
    secretAccessKey: secretAccessKey ?? '',
    pathStyle,
  };
}

/** The S3 bucket that audit entries are copied to before they are removed. */
export const auditArchiveArea = defineArea({
  variables: {
    AUDIT_ARCHIVE_BUCKET: s3Fields.bucket.describe(
      'S3 bucket for audit entries that are removed. Absent: there is no archive.',
    ),
    AUDIT_ARCHIVE_ENDPOINT: s3Fields.endpoint,
    AUDIT_ARCHIVE_REGION: s3Fields.region,
    AUDIT_ARCHIVE_ACCESS_KEY_ID: s3Fields.accessKeyId,
    AUDIT_ARCHIVE_SECRET_ACCESS_KEY: s3Fields.secretAccessKey,
    AUDIT_ARCHIVE_PATH_STYLE: s3Fields.pathStyle,
  },
  fromFile: ['AUDIT_ARCHIVE_SECRET_ACCESS_KEY'],
  conflicts: (values) => missingKeys('AUDIT_ARCHIVE', values),
  settings: (env) => ({
    auditArchive: s3Bucket({
      bucket: env.AUDIT_ARCHIVE_BUCKET,
      endpoint: env.AUDIT_ARCHIVE_ENDPOINT,
      region: env.AUDIT_ARCHIVE_REGION,
      accessKeyId: env.AUDIT_ARCHIVE_ACCESS_KEY_ID,
      secretAccessKey: env.AUDIT_ARCHIVE_SECRET_ACCESS_KEY,
      pathStyle: env.AUDIT_ARCHIVE_PATH_STYLE,
    }),
  }),
});

const HOST = String.raw`(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*`;

/** The first of them serves files, and redirects to one of the others. */
const GITHUB_HOSTS = 'github.com,*.githubusercontent.com';

const hosts = z
  .string()
  .toLowerCase()
  .regex(new RegExp(`^${HOST}(,${HOST})*$`), `must be host names, such as ${GITHUB_HOSTS}`)
  .default(GITHUB_HOSTS)
  .transform((text) => text.split(','));

/** Releases of the agent. */
export const releasesArea = defineArea({
  variables: {
    AGENT_AUTO_PROMOTE: flag(true).describe(
      'Devices upgrade to a stable release as soon as it is published. Off: to what an administrator promotes.',
    ),
    BINARY_SOURCE: z
      .enum(['github', 'local'], 'must be github or local')
      .default('github')
      .describe(
        'Where devices download releases that were fetched from GitHub: there, or from this server, which then keeps the files.',
      ),
    GITHUB_RELEASES_URL: z
      .string()
      .regex(
        /^https:\/\/[^\s/?#@]+(\/[^\s?#]*)?\/releases\/?$/,
        'must be a URL such as https://api.github.com/repos/OWNER/REPO/releases',
      )
      .refine((text) => URL.canParse(text), 'must be a URL')
      .optional()
      .describe(
        'API of the repository whose releases are fetched, such as https://api.github.com/repos/OWNER/REPO/releases. Absent: releases are published by hand.',
      ),
    GITHUB_TOKEN: z
      .string()
      .regex(/^[\x21-\x7e]{1,500}$/, 'must be a token of visible characters')
      .optional()
      .describe('Token for that API: 5000 requests per hour instead of 60. Devices never get it.'),
    GITHUB_FILE_HOSTS: hosts.describe(
      'Hosts, beside that of the API, from which files of releases may come, separated by commas.',
    ),
    GITHUB_ALLOWED_PRIVATE_CIDRS: addresses('10.1.2.3,10.8.0.0/16')
      .optional()
      .describe('Internal addresses or ranges that these URLs may lead to, for a mirror.'),
    RELEASES_S3_BUCKET: s3Fields.bucket.describe(
      'S3 bucket for files of releases that this server serves; devices download them there. Absent: they are in DATA_DIR.',
    ),
    RELEASES_S3_ENDPOINT: s3Fields.endpoint,
    RELEASES_S3_REGION: s3Fields.region,
    RELEASES_S3_ACCESS_KEY_ID: s3Fields.accessKeyId,
    RELEASES_S3_SECRET_ACCESS_KEY: s3Fields.secretAccessKey,
    RELEASES_S3_PATH_STYLE: s3Fields.pathStyle,
  },
  fromFile: ['GITHUB_TOKEN', 'RELEASES_S3_SECRET_ACCESS_KEY'],
  conflicts: (values) => missingKeys('RELEASES_S3', values),
  settings: (env) => ({
    autoPromotesReleases: env.AGENT_AUTO_PROMOTE,
    /** Undefined: the files are in DATA_DIR. */
    releaseStore: s3Bucket({
      bucket: env.RELEASES_S3_BUCKET,
      endpoint: env.RELEASES_S3_ENDPOINT,
      region: env.RELEASES_S3_REGION,
      accessKeyId: env.RELEASES_S3_ACCESS_KEY_ID,
      secretAccessKey: env.RELEASES_S3_SECRET_ACCESS_KEY,
      pathStyle: env.RELEASES_S3_PATH_STYLE,
    }),
    binarySource: env.BINARY_SOURCE,
    /** Undefined: releases are not fetched. */
    github:
      env.GITHUB_RELEASES_URL === undefined
        ? undefined
        : {
            url: env.GITHUB_RELEASES_URL.replace(/\/$/, ''),
            token: env.GITHUB_TOKEN,
            fileHosts: [new URL(env.GITHUB_RELEASES_URL).hostname, ...env.GITHUB_FILE_HOSTS],
            allowedPrivate: env.GITHUB_ALLOWED_PRIVATE_CIDRS ?? [],
          },
  }),
});
