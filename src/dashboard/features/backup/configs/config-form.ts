import { z } from 'zod';
import type { BackupConfig, Input } from '../../../api/index.ts';
import { given, scheduleFormOf, scheduleOf, type ScheduleForm } from '../schedule/schedule-form.ts';
import { sourceFormOf, sourcesOf, type SourceForm } from './sources/source-form.ts';

/** What the dialog of a configuration holds: the texts of its fields, and how they become what the API takes. */

type NewConfig = Input<'POST /backup/configs'>['body'];
type ConfigPatch = Input<'PATCH /backup/configs/{id}'>['body'];
type Schedule = NonNullable<BackupConfig['schedule']>;
export type Provider = BackupConfig['provider'];

export const KEPT = [
  'keepLast',
  'keepDaily',
  'keepWeekly',
  'keepMonthly',
  'keepYearly',
  'retentionDays',
  'immutableDays',
] as const;
export type Kept = (typeof KEPT)[number];

export interface ConfigForm extends SourceForm, ScheduleForm {
  orgId: string | undefined;
  name: string;
  provider: Provider;
  encryptionKeyId: string | undefined;
  enabled: boolean;
  isDefault: boolean;
  kept: Partial<Record<Kept, number>>;
  /** Empty: that of each device's site. */
  timezone: string;
  uploadKiBps: number | undefined;
  cpuPercent: number | undefined;
  all: boolean;
  deviceIds: string[];
  groupIds: string[];
  filterId: string | undefined;
  path: string;
  bucket: string;
  region: string;
  endpoint: string;
  prefix: string;
  accessKey: string;
  secretKey: string;
}

/** What every part of the dialog is given. */
export interface PartProps {
  form: ConfigForm;
  set: (change: Partial<ConfigForm>) => void;
  /** The rule that a field breaks, by its path. */
  faults: Record<string, string>;
}

const Texts = z.array(z.string()).catch([]);
const Details = z
  .object({
    path: z.string().default(''),
    bucket: z.string().default(''),
    region: z.string().default(''),
    endpoint: z.string().default(''),
    prefix: z.string().default(''),
    accessKey: z.string().default(''),
  })
  .catch({ path: '', bucket: '', region: '', endpoint: '', prefix: '', accessKey: '' });

/** The form of a new configuration, or of one that is there. */
export function formOf(config: BackupConfig | undefined, orgId: string | undefined): ConfigForm {
  const isNew = config === undefined;
  return {
    orgId: config?.orgId ?? orgId,
    name: config?.name ?? '',
    provider: config?.provider ?? 'server',
    encryptionKeyId: config?.encryptionKeyId,
    enabled: config?.enabled ?? true,
    isDefault: config?.isDefault ?? false,
    ...sourceFormOf(config?.sources),
    ...scheduleFormOf(config?.schedule),
    kept: isNew ? { keepDaily: 7, keepWeekly: 4, keepMonthly: 12 } : keptOf(config.retention),
    timezone: config?.schedule?.timezone ?? '',
    uploadKiBps: config?.limits.uploadKiBps,
    cpuPercent: config?.limits.cpuPercent,
    all: config?.targets.all ?? false,
    deviceIds: Texts.parse(config?.targets.deviceIds),
    groupIds: Texts.parse(config?.targets.groupIds),
    filterId: config?.targets.filterId,
    ...Details.parse(config?.details ?? {}),
    secretKey: '',
  };
}

const keptOf = (retention: BackupConfig['retention']): ConfigForm['kept'] =>
  Object.fromEntries(KEPT.map((kind) => [kind, retention[kind]]).filter(([, count]) => count !== undefined));

function common(form: ConfigForm) {
  const { deviceIds, groupIds, filterId, uploadKiBps, cpuPercent } = form;
  return {
    name: form.name,
    enabled: form.enabled,
    isDefault: form.isDefault,
    sources: sourcesOf(form),
    schedule: withTimezone(scheduleOf(form), form),
    retention: form.kept,
    limits: {
      ...(uploadKiBps === undefined ? {} : { uploadKiBps }),
      ...(cpuPercent === undefined ? {} : { cpuPercent }),
    },
    targets: {
      ...(form.all ? { all: true } : {}),
      ...(deviceIds.length === 0 ? {} : { deviceIds }),
      ...(groupIds.length === 0 ? {} : { groupIds }),
      ...(filterId === undefined ? {} : { filterId }),
    },
  };
}

const withTimezone = (schedule: Schedule | null, { timezone }: ConfigForm): Schedule | null =>
  schedule === null ? null : { ...schedule, ...given({ timezone }) };

const bucketOf = ({ bucket, accessKey, region, endpoint, prefix }: ConfigForm) => ({
  bucket,
  accessKey,
  ...given({ region, endpoint, prefix }),
});

export function newConfig(form: ConfigForm): NewConfig {
  const shared = {
    ...common(form),
    orgId: form.orgId ?? '',
    encryptionKeyId: form.encryptionKeyId ?? '',
  };
  if (form.provider === 's3') {
    return { ...shared, provider: 's3', details: { ...bucketOf(form), secretKey: form.secretKey } };
  }
  if (form.provider === 'local') return { ...shared, provider: 'local', details: { path: form.path } };
  return { ...shared, provider: 'server' };
}

export function patchOf(form: ConfigForm): ConfigPatch {
  const shared = common(form);
  if (form.provider === 's3') {
    return { ...shared, details: { ...bucketOf(form), ...given({ secretKey: form.secretKey }) } };
  }
  return form.provider === 'local' ? { ...shared, details: { path: form.path } } : shared;
}
