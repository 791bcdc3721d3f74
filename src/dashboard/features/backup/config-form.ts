import { z } from 'zod';
import type { BackupConfig, Input } from '../../api/index.ts';
import { given, scheduleFormOf, scheduleOf, type ScheduleForm } from './schedule.tsx';

/** The values of the dialog of a configuration, as texts of its fields, and their conversion to requests. */

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

/** The properties of every part of the dialog. */
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
export function formOf(config: BackupConfig | undefined): ConfigForm {
  const isNew = config === undefined;
  return {
    orgId: config?.orgId,
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

/** The sources of a backup in the fields of the dialog. Each kind keeps its own while another one is chosen. */

export type Sources = BackupConfig['sources'];
type SourcesOf<K extends Sources['kind']> = Extract<Sources, { kind: K }>;
export type Engine = SourcesOf<'database'>['engine'];
export type Between = NonNullable<SourcesOf<'database'>['between']>;

/** The types of backups between two full ones, the usual one first. */
export const BETWEEN: Readonly<Record<Engine, readonly Between[]>> = {
  postgresql: ['log', 'none'],
  mariadb: ['differential', 'none'],
};
const FULL_EVERY_DAYS = 7;
/** The default instance of SQL Server. */
const SQL_INSTANCE = 'MSSQLSERVER';

export const usualBetween = (engine: Engine): Between => BETWEEN[engine][0] ?? 'none';

/** When a backup of a database is a full one, and what the others are. */
export interface ChainForm {
  fullEveryDays: number | undefined;
  between: Between;
}

/** The fields for databases of SQL Server. */
export interface SqlForm extends ChainForm {
  instance: string;
  database: string;
  spoolPath: string;
}

interface SourceForm extends ChainForm {
  kind: Sources['kind'];
  linux: string;
  macos: string;
  windows: string;
  excludes: string;
  oneFileSystem: boolean;
  /** Every fixed disk, or those that are named. */
  disks: 'all' | 'named';
  diskNames: string;
  excludeDisks: string;
  engine: Engine;
  /** Empty: the only one of the engine on each device. */
  instance: string;
  sql: SqlForm;
  /** All that a host has, or those that are named. */
  machines: 'all' | 'named';
  machineNames: string;
  consistency: SourcesOf<'hyperv'>['consistency'];
}

/** The properties of the fields of each kind. */
export interface SourceFieldProps {
  form: SourceForm & { orgId: string | undefined };
  set: (change: Partial<SourceForm>) => void;
  /** The rule that a field breaks, by its path. */
  faults: Record<string, string>;
  /** The rule that a field of the sources breaks, or an entry in it. */
  faultOf: (name: string) => string | undefined;
}

const lines = (texts: unknown): string => Texts.parse(texts).join('\n');

/** The fields for sources that are there, or for those of a new configuration. */
function sourceFormOf(before: Sources | undefined): SourceForm {
  const [files, image] = [ofKind(before, 'files'), ofKind(before, 'image')];
  const [database, sql] = [ofKind(before, 'database'), ofKind(before, 'mssql')];
  const guests = ofKind(before, 'hyperv') ?? ofKind(before, 'kvm');
  const engine = database?.engine ?? 'postgresql';
  const paths = files?.paths ?? {
    linux: ['/home', '/etc'],
    macos: ['/Users'],
    windows: [String.raw`C:\Users`],
  };
  return {
    kind: before?.kind ?? 'files',
    linux: lines(paths.linux),
    macos: lines(paths.macos),
    windows: lines(paths.windows),
    excludes: lines(files?.excludes),
    oneFileSystem: files?.oneFileSystem ?? false,
    disks: Array.isArray(image?.disks) ? 'named' : 'all',
    diskNames: Array.isArray(image?.disks) ? lines(image.disks) : '',
    excludeDisks: lines(image?.excludeDisks),
    engine,
    instance: database?.instance ?? '',
    fullEveryDays: database?.fullEveryDays ?? FULL_EVERY_DAYS,
    between: database?.between ?? usualBetween(engine),
    sql: {
      instance: sql?.instance ?? SQL_INSTANCE,
      database: sql?.database ?? '',
      spoolPath: sql?.spoolPath ?? '',
      fullEveryDays: sql?.fullEveryDays ?? FULL_EVERY_DAYS,
      between: sql?.between ?? 'log',
    },
    machines: Array.isArray(guests?.machines) ? 'named' : 'all',
    machineNames: Array.isArray(guests?.machines) ? lines(guests.machines) : '',
    consistency: guests?.consistency ?? 'application',
  };
}

const TO_SOURCES: { [K in Sources['kind']]: (form: SourceForm) => Sources } = {
  files: ({ linux, macos, windows, excludes, oneFileSystem }) => {
    const paths = { linux: linesOf(linux), macos: linesOf(macos), windows: linesOf(windows) };
    return {
      kind: 'files',
      paths: Object.fromEntries(Object.entries(paths).filter(([, named]) => named !== undefined)),
      excludes: linesOf(excludes) ?? [],
      ...(oneFileSystem ? { oneFileSystem } : {}),
    };
  },
  image: ({ disks, diskNames, excludeDisks }) => ({
    kind: 'image',
    disks: disks === 'all' ? 'all' : (linesOf(diskNames) ?? []),
    excludeDisks: disks === 'all' ? (linesOf(excludeDisks) ?? []) : [],
  }),
  database: ({ engine, instance, fullEveryDays = FULL_EVERY_DAYS, between }) => ({
    kind: 'database',
    engine,
    ...(instance.trim() === '' ? {} : { instance: instance.trim() }),
    fullEveryDays,
    between,
  }),
  mssql: ({ sql: { instance, database, spoolPath, fullEveryDays = FULL_EVERY_DAYS, between } }) => ({
    kind: 'mssql',
    instance: instance.trim(),
    database,
    spoolPath: spoolPath.trim(),
    fullEveryDays,
    between,
  }),
  hyperv: (form) => ({ kind: 'hyperv', ...guestsOf(form) }),
  kvm: (form) => ({ kind: 'kvm', ...guestsOf(form) }),
};

const guestsOf = ({ machines, machineNames, consistency }: SourceForm) => ({
  machines: machines === 'all' ? ('all' as const) : (linesOf(machineNames) ?? []),
  consistency,
});

const sourcesOf = (form: SourceForm): Sources => TO_SOURCES[form.kind](form);

function ofKind<K extends Sources['kind']>(sources: Sources | undefined, kind: K): SourcesOf<K> | undefined {
  return isOfKind(sources, kind) ? sources : undefined;
}

const isOfKind = <K extends Sources['kind']>(
  sources: Sources | undefined,
  kind: K,
): sources is SourcesOf<K> => sources?.kind === kind;

/** The entries of a field with one entry a line; `undefined` if it has none. */
function linesOf(text: string): string[] | undefined {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return lines.length === 0 ? undefined : lines;
}

/** The names of the kinds of sources, in the order in which they are offered. */
export const KIND_NAMES: { readonly [K in Sources['kind']]: string } = {
  files: 'Files',
  image: 'Whole disks',
  database: 'Databases',
  mssql: 'SQL Server',
  hyperv: 'Machines of Hyper-V',
  kvm: 'Machines of KVM',
};
