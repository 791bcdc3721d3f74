import type { Tx } from '../../../platform/db/transaction.ts';
import type {
  BackupRepositoryAccess,
  BackupResult,
  CommandPayload,
  COMMANDS,
  DatabaseBackupType,
  DurableCommandType,
  OsType,
} from '../../../protocol/index.ts';
import type { JobSources } from '../configs/sources.schema.ts';
import type { BackupSnapshot } from '../snapshots/snapshot.model.ts';

/** The commands whose output is that of a backup. */
export type BackupCommandType = {
  [T in DurableCommandType]: (typeof COMMANDS)[T]['output'] extends typeof BackupResult ? T : never;
}[DurableCommandType];

type BackupCommand = {
  [T in BackupCommandType]: { type: T; payload: CommandPayload<T> };
}[BackupCommandType];

type SourceKind = JobSources['kind'];
type SourcesOf<K extends SourceKind> = Extract<JobSources, { kind: K }>;

/** What the command of each backup has. */
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

/** What a job shows of what was decided when it was given to its device. */
export interface ChosenType {
  backupType: DatabaseBackupType;
  typeReason: string;
}

/** Why no command can be made, for a person. It ends the job. */
export interface Refusal {
  refusal: { code: string; message: string };
}

type Handed<Command> = (Command & { chosen?: ChosenType }) | Refusal;

/** A backup of one type that a person asks for. */
export interface TypeQuestion<S> {
  sources: S;
  /** Where the device has a repository of the configuration. */
  repositoryId: string | undefined;
  wanted: DatabaseBackupType;
}

interface Work<S, Command> {
  command: BackupCommandType;
  /** What its snapshots are. */
  backupType: BackupSnapshot['backupType'];
  /** The operating systems whose devices can be backed up. */
  systems: (sources: S) => OsType[];
  /** Why a device with such a system cannot be, for a person. */
  refusal: (osType: OsType) => string;
  toCommand: (tx: Tx, order: WorkOrder<S>) => Promise<Handed<Command>> | Handed<Command>;
  /** Why a backup of a type cannot be made now; `undefined`: it can. Without it, the backups have no types. */
  typeRefusal?: (tx: Tx, question: TypeQuestion<S>) => Promise<string | undefined>;
  /** What its command was to back up, as snapshots show it. */
  pathsOf: (payload: unknown) => string[];
}

/** How backups of one kind of sources are made. Nothing else knows its command. */
export type SourceWork = Work<JobSources, BackupCommand>;

export function defineSource<K extends SourceKind>(
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

const isOfKind = <K extends SourceKind>(sources: JobSources, kind: K): sources is SourcesOf<K> =>
  sources.kind === kind;
