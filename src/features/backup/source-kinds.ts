import { clock } from '../../clock.ts';
import { MACHINE_PATH } from '../../engine/index.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import {
  type BackupRepositoryAccess,
  type BackupResult,
  type CommandPayload,
  COMMANDS,
  type DatabaseBackupType,
  type DurableCommandType,
  type HypervisorKind,
  OsType,
} from '../../protocol/index.ts';
import { decideType, readChainState } from './database-chain-state.ts';
import type { BackupSnapshot } from './snapshot.model.ts';
import { betweenOf, type DatabaseSources, type JobSources, type SourceKind } from './source.schema.ts';

/** The commands whose output is that of a backup. */
type BackupCommandType = {
  [T in DurableCommandType]: (typeof COMMANDS)[T]['output'] extends typeof BackupResult ? T : never;
}[DurableCommandType];

type BackupCommand = {
  [T in BackupCommandType]: { type: T; payload: CommandPayload<T> };
}[BackupCommandType];

type JobSourceKind = JobSources['kind'];
type SourcesOf<K extends JobSourceKind> = Extract<JobSources, { kind: K }>;

/** The fields that the command of every backup has. */
interface SharedPayload {
  jobId: string;
  repository: BackupRepositoryAccess;
  host: string;
  uploadKiBps?: number;
  cpuPercent?: number;
  timeoutSeconds: number;
}

interface WorkOrder<S> {
  sources: S;
  repositoryId: string;
  device: { id: string; orgId: string; osType: OsType };
  /** The type of backup that a person has asked for. */
  wantedType: DatabaseBackupType | null;
  shared: SharedPayload;
}

/** The decisions of the hand-over to the device that a job shows. */
interface ChosenType {
  backupType: DatabaseBackupType;
  typeReason: string;
}

/** Why no command can be made, for a person. It ends the job. */
interface Refusal {
  refusal: { code: string; message: string };
}

type Handed<Command> = (Command & { chosen?: ChosenType }) | Refusal;

/** A backup of one type that a person asks for. */
interface TypeQuestion<S> {
  sources: S;
  /** If the device has a repository of the configuration. */
  repositoryId: string | undefined;
  wanted: DatabaseBackupType;
}

interface Work<S, Command> {
  command: BackupCommandType;
  /** The kind of its snapshots. */
  backupType: BackupSnapshot['backupType'];
  /** The operating systems whose devices can be backed up. */
  systems: (sources: S) => OsType[];
  /** Why a device with such a system cannot be, for a person. */
  refusal: (osType: OsType) => string;
  toCommand: (tx: Tx, order: WorkOrder<S>) => Promise<Handed<Command>> | Handed<Command>;
  /** Why a backup of a type cannot be made now; `undefined`: it can. Without it, the backups have no types. */
  typeRefusal?: (tx: Tx, question: TypeQuestion<S>) => Promise<string | undefined>;
  /** The sources of its command, as snapshots show them. */
  pathsOf: (payload: unknown) => string[];
}

/** How backups of one kind of sources are made. Nothing else knows its command. */
export type SourceWork = Work<JobSources, BackupCommand>;

function defineSource<K extends JobSourceKind>(
  kind: K,
  { typeRefusal, ...work }: Work<SourcesOf<K>, BackupCommand>,
): SourceWork {
  const own = (sources: JobSources): SourcesOf<K> => {
    if (!isOfKind(sources, kind)) throw new Error(`${sources.kind} are no sources of the kind ${kind}`);
    return sources;
  };
  return {
    ...work,
    systems: (sources) => work.systems(own(sources)),
    toCommand: (tx, order) => work.toCommand(tx, { ...order, sources: own(order.sources) }),
    ...(typeRefusal === undefined
      ? {}
      : {
          typeRefusal: (tx, question) => typeRefusal(tx, { ...question, sources: own(question.sources) }),
        }),
  };
}

const isOfKind = <K extends JobSourceKind>(sources: JobSources, kind: K): sources is SourcesOf<K> =>
  sources.kind === kind;

const Named = COMMANDS['backup.database'].payload.pick({ engine: true, instance: true, databases: true });

/** As snapshots show what was backed up, for all engines. */
function pathsOfDatabase(payload: unknown): string[] {
  const { engine, instance, databases = [] } = Named.catch({ engine: 'postgresql' }).parse(payload);
  return [[engine, instance, ...databases].filter((word) => word !== undefined).join(' ')];
}

const typed = (sources: DatabaseSources) => ({ ...sources, between: betweenOf(sources) });

/** Backups of the servers of databases (docs/decisions/backup-databases.md). */
const database = defineSource('database', {
  command: 'backup.database',
  backupType: 'database',
  systems: () => ['linux'],
  refusal: (osType) => `Databases of this engine are not backed up on ${osType}.`,
  async toCommand(tx, { sources, repositoryId, wantedType, shared }) {
    const state = await readChainState(tx, repositoryId);
    const wanted = { ...state, wanted: wantedType, now: clock.date() };
    const decided = decideType(typed(sources), wanted);
    if ('refusal' in decided) return { refusal: { code: 'BACKUP_TYPE_REFUSED', message: decided.refusal } };
    const { backupType, reason, full, previous } = decided;
    // A log continues the instance that it is of, even if the configuration names none.
    const instance = sources.instance ?? full?.instance;
    return {
      type: 'backup.database',
      payload: {
        ...shared,
        engine: sources.engine,
        ...(instance === undefined ? {} : { instance }),
        backupType,
        chainId: repositoryId,
        full,
        previous,
      },
      chosen: { backupType, typeReason: reason },
    };
  },
  async typeRefusal(tx, { sources, repositoryId, wanted }) {
    const state =
      repositoryId === undefined
        ? { snapshots: [], isChainBroken: false }
        : await readChainState(tx, repositoryId);
    const decided = decideType(typed(sources), { ...state, wanted, now: clock.date() });
    return 'refusal' in decided ? decided.refusal : undefined;
  },
  pathsOf: pathsOfDatabase,
});

const NOTHING = { snapshots: [], isChainBroken: false };

/** Backups of single databases of SQL Server into the repository (docs/decisions/virtual-machines.md). */
const mssql = defineSource('mssql', {
  command: 'backup.database',
  backupType: 'database',
  systems: () => ['windows'],
  refusal: (osType) => `SQL Server is backed up on Windows, and not on ${osType}.`,
  async toCommand(tx, { sources, repositoryId, wantedType, shared }) {
    const state = await readChainState(tx, repositoryId);
    const wanted = { ...state, wanted: wantedType, now: clock.date() };
    const decided = decideType({ ...sources, engine: 'mssql' }, wanted);
    if ('refusal' in decided) return { refusal: { code: 'BACKUP_TYPE_REFUSED', message: decided.refusal } };
    const { backupType, reason, full, previous } = decided;
    const { instance, database, spoolPath } = sources;
    return {
      type: 'backup.database',
      payload: {
        ...shared,
        engine: 'mssql',
        instance,
        databases: [database],
        spoolPath,
        backupType,
        chainId: repositoryId,
        full,
        previous,
      },
      chosen: { backupType, typeReason: reason },
    };
  },
  async typeRefusal(tx, { sources, repositoryId, wanted }) {
    const state = repositoryId === undefined ? NOTHING : await readChainState(tx, repositoryId);
    const decided = decideType({ ...sources, engine: 'mssql' }, { ...state, wanted, now: clock.date() });
    return 'refusal' in decided ? decided.refusal : undefined;
  },
  pathsOf: pathsOfDatabase,
});

/** Machines that devices have made of snapshots (docs/decisions/disaster-recovery.md). */
const restored = defineSource('restored', {
  command: 'backup.vm-save',
  backupType: 'system_image',
  systems: () => ['linux'],
  refusal: (osType) => `Snapshots become machines on Linux, and not on ${osType}.`,
  toCommand: (_tx, { sources: { vmRestoreId: restoreId }, shared }) => ({
    type: 'backup.vm-save',
    payload: { ...shared, restoreId },
  }),
  pathsOf: () => [MACHINE_PATH],
});

const Machines = COMMANDS['backup.machine'].payload.pick({ machines: true });

/** Guests of a hypervisor, which runs on devices with one operating system. */
const machines = (hypervisor: HypervisorKind & SourceKind, system: OsType): SourceWork =>
  defineSource(hypervisor, {
    command: 'backup.machine',
    backupType: 'system_image',
    systems: () => [system],
    refusal: (osType) => `There are no machines of ${hypervisor} on ${osType}.`,
    toCommand: (_tx, { sources, shared }) => ({
      type: 'backup.machine',
      payload: { ...shared, hypervisor, machines: sources.machines, consistency: sources.consistency },
    }),
    pathsOf: (payload) => {
      const { machines: wanted } = Machines.catch({ machines: 'all' }).parse(payload);
      return wanted === 'all' ? ['all machines'] : wanted;
    },
  });

/** Whole disks (docs/decisions/machine-images.md). */
const image = defineSource('image', {
  command: 'backup.image',
  backupType: 'system_image',
  systems: () => ['linux'],
  refusal: (osType) => `Images of whole disks can be made on Linux, and not on ${osType} yet.`,
  toCommand: (_tx, { sources, shared }) => ({
    type: 'backup.image',
    payload: { ...shared, disks: sources.disks, excludeDisks: sources.excludeDisks ?? [] },
  }),
  pathsOf: () => [MACHINE_PATH],
});

const Paths = COMMANDS['backup.run'].payload.pick({ paths: true });

const files = defineSource('files', {
  command: 'backup.run',
  backupType: 'file',
  systems: ({ paths }) => OsType.options.filter((system) => paths[system] !== undefined),
  refusal: (osType) => `The configuration names no paths for ${osType}.`,
  toCommand: (_tx, { sources, device, shared }) => ({
    type: 'backup.run',
    payload: {
      ...shared,
      paths: sources.paths[device.osType] ?? [],
      excludes: sources.excludes ?? [],
      oneFileSystem: sources.oneFileSystem ?? false,
    },
  }),
  pathsOf: (payload) => Paths.catch({ paths: [] }).parse(payload).paths,
});

/** Every kind of sources, by the `kind` of a configuration or of a job. */
export const SOURCE_WORK: Readonly<Record<JobSources['kind'], SourceWork>> = {
  files,
  image,
  database,
  mssql,
  hyperv: machines('hyperv', 'windows'),
  kvm: machines('kvm', 'linux'),
  restored,
};

// Kinds with the same command, such as the hypervisors, are alike in what is asked of them by their command.
const WORK_OF_COMMAND = new Map<string, SourceWork>(
  Object.values(SOURCE_WORK).map((work) => [work.command, work]),
);

/** The types of the commands of backup jobs. */
export const BACKUP_COMMANDS: readonly string[] = [...WORK_OF_COMMAND.keys()];

/** The kind of sources that a command backs up. */
export function sourceOfCommand(type: string): SourceWork {
  const work = WORK_OF_COMMAND.get(type);
  if (work === undefined) throw new Error(`${type} is not the command of a backup`);
  return work;
}

/** The capability that a device needs for each kind. */
export const COMMAND_OF_KIND = Object.fromEntries(
  Object.entries(SOURCE_WORK).map(([kind, { command }]) => [kind, command]),
);
