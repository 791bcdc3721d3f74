import { z } from 'zod';
import type { Values } from './area.ts';
import { flag } from './variables.ts';

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

/** `undefined` where no bucket is named. */
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
