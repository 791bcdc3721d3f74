import { z } from 'zod';
import { Id, nfcText, Timestamp, text } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { Retention } from './retention.ts';
import { BackupSchedule, isEverDue } from './schedule.ts';
import { BackupSources, faultsOfExcludes } from './source.schema.ts';

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
    .describe('For an S3 service other than Amazon’s.'),
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
  secretKey: SecretKey.optional().describe('The stored one stays if it is left out.'),
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

export const DeleteConfigQuery = z.object({
  keepSnapshots: z
    .stringbool()
    .optional()
    .describe(
      'Keeps the snapshots. Nothing removes them any more; those in a bucket or on a device are no longer reached through Muster.',
    ),
});
export type DeleteConfigQuery = z.infer<typeof DeleteConfigQuery>;

export const ConfigDeleted = z.object({
  success: z.literal(true),
  keptSnapshots: z.number().int().nonnegative(),
});

export const ConfigTest = z.strictObject({
  deviceId: Id.optional().describe(
    'The device that tests the destination. Required with the providers `s3` and `local`, whose destination only devices reach.',
  ),
});
export type ConfigTest = z.infer<typeof ConfigTest>;

export const ConfigTestResult = z
  .object({
    id: z.uuid().describe('The id of the configuration.'),
    status: z.enum(['success', 'failed']),
    checks: z.array(
      z.object({
        name: z.string(),
        ok: z.boolean(),
        code: z.string().optional(),
        message: z.string().optional(),
      }),
    ),
    checkedAt: Timestamp,
  })
  .meta({ id: 'BackupConfigTest' });
export type ConfigTestResult = z.infer<typeof ConfigTestResult>;

export const Provider = z.enum(['server', 's3', 'local']);
export type Provider = z.infer<typeof Provider>;

const ids = (max: number) =>
  z
    .array(Id)
    .max(max)
    .transform((list) => [...new Set(list)])
    .optional();

/** Which devices of the organization a configuration backs up. Groups and filters are followed as they change. */
export const BackupTargets = z
  .strictObject({
    all: z.boolean().optional().describe('Every device of the organization.'),
    deviceIds: ids(1000),
    groupIds: ids(100),
    filterId: Id.optional().describe('The devices that match a saved filter of the organization.'),
  })
  .describe(
    'Devices that any of these fields names. Without any, backups of the configuration begin by hand only.',
  );
export type BackupTargets = z.infer<typeof BackupTargets>;

export const BackupLimits = z.strictObject({
  uploadKiBps: z.number().int().min(16).max(10_000_000).optional().describe('KiB a second.'),
  cpuPercent: z.number().int().min(1).max(100).optional().describe('The share of all processors together.'),
});
export type BackupLimits = z.infer<typeof BackupLimits>;

const Schedule = BackupSchedule.refine(isEverDue, {
  path: ['time'],
  message: 'must name a minute that lies within the window in some hour',
});

/** Excludes that were stored before a rule are still shown, so the rules apply to new ones only. */
const Sources = BackupSources.superRefine((sources, context) => {
  if (sources.kind !== 'files') return;
  for (const { at, message } of faultsOfExcludes(sources)) {
    context.addIssue({ code: 'custom', path: ['excludes', ...(at === undefined ? [] : [at])], message });
  }
});

const common = {
  name: nfcText(200),
  encryptionKeyId: Id.describe('The key of the repositories. It cannot be changed, but it can be rotated.'),
  enabled: z
    .boolean()
    .optional()
    .describe('Default true. A configuration that is not enabled begins no backup.'),
  isDefault: z
    .boolean()
    .optional()
    .describe('The configuration of the organization that counts if a request names none. At most one is.'),
  sources: Sources,
  schedule: Schedule.nullable().optional().describe('Without one, backups begin by hand only.'),
  retention: Retention.optional(),
  targets: BackupTargets.optional(),
  limits: BackupLimits.optional(),
};
const owner = { orgId: Id };

export const NewConfig = z.discriminatedUnion('provider', [
  z.strictObject({ ...owner, ...common, provider: z.literal('server'), details: ServerDetails.optional() }),
  z.strictObject({ ...owner, ...common, provider: z.literal('s3'), details: S3DetailsInput }),
  z.strictObject({ ...owner, ...common, provider: z.literal('local'), details: LocalDetails }),
]);
export type NewConfig = z.infer<typeof NewConfig>;

const { encryptionKeyId: _fixed, ...changeable } = common;
/** Each field replaces the stored one as a whole. */
export const ConfigPatch = z
  .strictObject({
    ...changeable,
    // Which shape they have depends on the provider, which cannot be changed.
    details: z.union([S3DetailsPatch, LocalDetails, ServerDetails]),
  })
  .partial();
export type ConfigPatch = z.infer<typeof ConfigPatch>;

export const ConfigQuery = PageQuery.extend({ orgId: Id.optional(), provider: Provider.optional() });
export type ConfigQuery = z.infer<typeof ConfigQuery>;

export const BackupConfig = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    name: z.string(),
    provider: Provider,
    details: z.union([S3Details, LocalDetails, ServerDetails]),
    encryptionKeyId: z.uuid(),
    enabled: z.boolean(),
    isDefault: z.boolean(),
    sources: BackupSources,
    schedule: BackupSchedule.nullable(),
    retention: Retention,
    targets: BackupTargets,
    limits: BackupLimits,
    providerCapabilities: z
      .object({
        isAppendOnly: z.boolean().describe('A device can neither delete nor overwrite stored data.'),
        servesEarlierStates: z.boolean().describe('The repository can be read as of an earlier time.'),
        prunedBy: z
          .enum(['server', 'nobody'])
          .describe('The side that removes snapshots beyond the retention.'),
      })
      .describe('The guarantees of the provider.'),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'BackupConfig' });
