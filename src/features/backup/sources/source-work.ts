import type { Tx } from '../../../platform/db/transaction.ts';
import type {
  BackupRepositoryAccess,
  BackupResult,
  CommandPayload,
  COMMANDS,
  DurableCommandType,
  OsType,
} from '../../../protocol/index.ts';
import type { BackupSources, SourceKind } from '../configs/sources.schema.ts';
import type { BackupSnapshot } from '../snapshots/snapshot.model.ts';

/** The commands whose output is that of a backup. */
export type BackupCommandType = {
  [T in DurableCommandType]: (typeof COMMANDS)[T]['output'] extends typeof BackupResult ? T : never;
}[DurableCommandType];

type BackupCommand = {
  [T in BackupCommandType]: { type: T; payload: CommandPayload<T> };
}[BackupCommandType];

type SourcesOf<K extends SourceKind> = Extract<BackupSources, { kind: K }>;

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
  shared: SharedPayload;
}

interface Work<S, Command> {
  command: BackupCommandType;
  /** What its snapshots are. */
  backupType: BackupSnapshot['backupType'];
  /** The operating systems whose devices can be backed up. */
  systems: (sources: S) => OsType[];
  /** Why a device with such a system cannot be, for a person. */
  refusal: (osType: OsType) => string;
  toCommand: (tx: Tx, order: WorkOrder<S>) => Promise<Command> | Command;
  /** What its command was to back up, as snapshots show it. */
  pathsOf: (payload: unknown) => string[];
}

/** How backups of one kind of sources are made. Nothing else knows its command. */
export type SourceWork = Work<BackupSources, BackupCommand>;

export function defineSource<K extends SourceKind>(
  kind: K,
  work: Work<SourcesOf<K>, BackupCommand>,
): SourceWork {
  const own = (sources: BackupSources): SourcesOf<K> => {
    if (!isOfKind(sources, kind)) throw new Error(`${sources.kind} are no sources of the kind ${kind}`);
    return sources;
  };
  return {
    ...work,
    systems: (sources) => work.systems(own(sources)),
    toCommand: (tx, order) => work.toCommand(tx, { ...order, sources: own(order.sources) }),
  };
}

const isOfKind = <K extends SourceKind>(sources: BackupSources, kind: K): sources is SourcesOf<K> =>
  sources.kind === kind;
