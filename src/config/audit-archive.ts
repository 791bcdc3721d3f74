import { defineArea } from './area.ts';
import { missingKeys, s3Bucket, s3Fields } from './s3-bucket.ts';

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
