import { z } from 'zod';
import { defineArea } from './area.ts';
import { missingKeys, s3Bucket, s3Fields } from './s3-bucket.ts';
import { addresses, flag } from './variables.ts';

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
