import { z } from 'zod';
import { Id, nfcText, Timestamp } from '../../../platform/http/fields.ts';
import { PageQuery } from '../../../platform/http/pagination.ts';
import { BackupSchedule } from '../core/schedule.schema.ts';
import { isEverDue } from '../core/schedule.ts';
import { Retention } from '../core/retention.schema.ts';
import { faultsOfExcludes } from './exclude-pattern.ts';
import { BackupSources } from './sources.schema.ts';
import { LocalDetails, S3Details, S3DetailsInput, S3DetailsPatch, ServerDetails } from './details.schema.ts';

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
  cpuPercent: z.number().int().min(1).max(100).optional().describe('Of all processors together.'),
});
export type BackupLimits = z.infer<typeof BackupLimits>;

const Schedule = BackupSchedule.refine(isEverDue, {
  path: ['time'],
  message: 'must name a minute that lies within the window in some hour',
});

/** What was stored before a rule is still shown, so the rules of excludes are for what is written. */
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
    .describe(
      'The configuration of the organization that counts where a request names none. At most one is.',
    ),
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
        prunedBy: z.enum(['server', 'nobody']).describe('Who removes what the retention does not keep.'),
      })
      .describe('What the provider can promise.'),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'BackupConfig' });
