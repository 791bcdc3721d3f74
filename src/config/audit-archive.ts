import { z } from 'zod';
import { defineArea } from './area.ts';
import { flag } from './variables.ts';

/** The S3 bucket that audit entries are copied to before they are removed. */
export const auditArchiveArea = defineArea({
  variables: {
    AUDIT_ARCHIVE_BUCKET: z
      .string()
      .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket, such as muster-audit')
      .optional()
      .describe('S3 bucket for audit entries that are removed. Absent: there is no archive.'),
    AUDIT_ARCHIVE_ENDPOINT: z
      .url({ protocol: /^https?$/, error: 'must be a URL such as https://s3.eu-central-1.amazonaws.com' })
      .optional()
      .describe('S3-compatible storage with that bucket. Absent: Amazon S3 in the region.'),
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
      'Put the name of the bucket into the path, which every storage understands, instead of the host name.',
    ),
  },
  fromFile: ['AUDIT_ARCHIVE_SECRET_ACCESS_KEY'],
  conflicts(values) {
    if (values['AUDIT_ARCHIVE_BUCKET'] === undefined) return [];
    return ['AUDIT_ARCHIVE_ACCESS_KEY_ID', 'AUDIT_ARCHIVE_SECRET_ACCESS_KEY']
      .filter((name) => values[name] === undefined)
      .map((name) => `${name} must be set when AUDIT_ARCHIVE_BUCKET is`);
  },
  settings({ AUDIT_ARCHIVE_BUCKET: bucket, AUDIT_ARCHIVE_REGION: region, ...env }) {
    if (bucket === undefined) return { auditArchive: undefined };
    return {
      auditArchive: {
        bucket,
        region,
        endpoint: env.AUDIT_ARCHIVE_ENDPOINT ?? `https://s3.${region}.amazonaws.com`,
        // `conflicts` rejects a bucket without these two.
        accessKeyId: env.AUDIT_ARCHIVE_ACCESS_KEY_ID ?? '',
        secretAccessKey: env.AUDIT_ARCHIVE_SECRET_ACCESS_KEY ?? '',
        pathStyle: env.AUDIT_ARCHIVE_PATH_STYLE,
      },
    };
  },
});
