import { z } from 'zod';
import type { BackupConfig } from '../../../../api/index.ts';
import { linesOf } from './lines.ts';

/** What is backed up, as the fields of the dialog hold it. Each kind keeps its own, also while another one is chosen. */

export type Sources = BackupConfig['sources'];
type SourcesOf<K extends Sources['kind']> = Extract<Sources, { kind: K }>;
export type Engine = SourcesOf<'database'>['engine'];
export type Between = NonNullable<SourcesOf<'database'>['between']>;

/** What the backups between two full ones can be, the usual first. */
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

/** Of a database of SQL Server. */
export interface SqlForm extends ChainForm {
  instance: string;
  database: string;
  spoolPath: string;
}

export interface SourceForm extends ChainForm {
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

/** What the fields of each kind are given. */
export interface SourceFieldProps {
  form: SourceForm & { orgId: string | undefined };
  set: (change: Partial<SourceForm>) => void;
  /** The rule that a field breaks, by its path. */
  faults: Record<string, string>;
  /** The rule that a field of the sources breaks, or an entry in it. */
  faultOf: (name: string) => string | undefined;
}

const Texts = z.array(z.string()).catch([]);
const lines = (texts: unknown): string => Texts.parse(texts).join('\n');

/** The fields for sources that are there, or for those of a new configuration. */
export function sourceFormOf(before: Sources | undefined): SourceForm {
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

export const sourcesOf = (form: SourceForm): Sources => TO_SOURCES[form.kind](form);

function ofKind<K extends Sources['kind']>(sources: Sources | undefined, kind: K): SourcesOf<K> | undefined {
  return isOfKind(sources, kind) ? sources : undefined;
}

const isOfKind = <K extends Sources['kind']>(
  sources: Sources | undefined,
  kind: K,
): sources is SourcesOf<K> => sources?.kind === kind;
