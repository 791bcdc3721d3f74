import path from 'node:path';
import { z } from 'zod';
import { defineArea } from './area.ts';
import { flag, whole } from './variables.ts';

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
