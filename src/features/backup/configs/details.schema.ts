import { z } from 'zod';
import { text } from '../../../platform/http/fields.ts';

/** Where the data of a configuration goes, by provider. */

export const ServerDetails = z.strictObject({}).describe('`server`: Muster keeps the data itself.');

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const REGION = /^[a-z0-9-]{1,50}$/;

const S3Place = z.strictObject({
  bucket: z
    .string()
    .regex(BUCKET, 'must be the name of a bucket: 3 to 63 lower-case letters, digits, dots and dashes'),
  region: z.string().regex(REGION, 'must be a region such as eu-central-1').optional(),
  endpoint: z
    .url({ protocol: /^https$/, error: 'must be an https:// URL' })
    .max(500)
    .refine(hasOnlyOrigin, 'must be an address without path, query, user or password')
    .optional()
    .describe('Of an S3 service other than Amazon’s.'),
  prefix: text(200)
    .regex(/^[\w.=-]+(\/[\w.=-]+)*$/, 'must be names separated by single slashes')
    .refine((prefix) => !prefix.split('/').some(isDots), 'must not contain . or ..')
    .optional(),
  accessKey: z.string().regex(/^[\x21-\x7E]{1,200}$/, 'must be 1 to 200 visible characters'),
});
type S3Place = z.infer<typeof S3Place>;

const SecretKey = z
  .string()
  .regex(/^[\x21-\x7E]{1,500}$/, 'must be 1 to 500 visible characters')
  .describe('Stored sealed, and never returned.');

const hasPlace = ({ region, endpoint }: Pick<S3Place, 'region' | 'endpoint'>) =>
  region !== undefined || endpoint !== undefined;
const PLACE_RULE = { path: ['region'], message: 'is required where endpoint is left out' };
const OF_S3 = '`s3`: a bucket of the customer.';

export const S3DetailsInput = S3Place.extend({ secretKey: SecretKey })
  .refine(hasPlace, PLACE_RULE)
  .describe(OF_S3);
export const S3DetailsPatch = S3Place.extend({
  secretKey: SecretKey.optional().describe('The stored one stays where it is left out.'),
})
  .refine(hasPlace, PLACE_RULE)
  .describe(OF_S3);
/** As answers show them. */
export const S3Details = S3Place.extend({ secretKey: z.object({ hasSecret: z.literal(true) }) });

export const LocalDetails = z
  .strictObject({
    path: text(1000)
      .regex(
        /^(\/|[A-Za-z]:[\\/]|\\\\[^\\]+\\)/,
        'must be an absolute path, such as /mnt/backup, D:\\Backup or \\\\server\\share',
      )
      .refine((path) => !path.split(/[\\/]/).includes('..'), 'must not contain ..')
      .describe(
        'A folder as the device sees it: a disk or a share. Each device has a folder of its own in it.',
      ),
  })
  .describe('`local`: a path on the device.');

/** As they are stored: without the secret. */
export type StoredDetails = S3Place | z.infer<typeof LocalDetails> | z.infer<typeof ServerDetails>;

export const isInBucket = (details: StoredDetails): details is S3Place => 'accessKey' in details;

const isDots = (part: string) => part === '.' || part === '..';

function hasOnlyOrigin(address: string): boolean {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  return url !== undefined && `${url.origin}/` === url.href;
}
