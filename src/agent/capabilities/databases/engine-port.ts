import {
  type CommandPayload,
  type DatabaseDetails,
  type DatabaseEngine,
  type DatabaseInstance,
  DATABASES_MAX,
} from '../../../protocol/index.ts';
import type { EmptyTarget } from './empty-target.ts';

/** Backup and restore of one kind of database server. */
export interface DatabasePort {
  engine: DatabaseEngine;
  /** Lists the running servers. Absent if another command lists them. */
  discover?: (signal: AbortSignal) => Promise<DatabaseInstance[]>;
  openBackup(order: BackupOrder): Promise<OpenBackup>;
  /** Restores into a folder, where a server started by the agent runs the recovery. */
  openRestore?: (order: RestoreOrder) => Promise<OpenRestore>;
  /** Restores as a new database of a running server. */
  openFileRestore?: (order: FileRestoreOrder) => Promise<OpenFileRestore>;
}

type BackupPayload = CommandPayload<'backup.database'>;
type RestorePayload = CommandPayload<'backup.database-restore'>;

export interface BackupOrder
  extends Pick<
    BackupPayload,
    'instance' | 'databases' | 'spoolPath' | 'backupType' | 'chainId' | 'full' | 'previous' | 'timeoutSeconds'
  > {
  signal: AbortSignal;
  /** A private folder of the agent, which is removed afterwards. */
  spool: string;
  warn: (message: string) => void;
}

/** A backup that has begun: one stream, which becomes the only file of a snapshot. */
export interface OpenBackup {
  fileName: string;
  content: AsyncIterable<Uint8Array>;
  /** The approximate size, for the progress. */
  expectedBytes: number | null;
  /** Called after the end of the content. Rejects if the content is incomplete. */
  finish: () => Promise<DatabaseDetails>;
  close: () => Promise<void>;
}

export type ChainPart = RestorePayload['parts'][number];

export interface RestoreOrder
  extends Pick<RestorePayload, 'branch' | 'version' | 'parts' | 'pointInTime' | 'noRecovery' | 'restoreId'> {
  signal: AbortSignal;
  /** A private folder of the agent, which is removed afterwards. */
  spool: string;
  warn: (message: string) => void;
  /** Records a process that a later agent has to end if this one is killed. */
  record: (pid: number) => Promise<() => Promise<void>>;
}

export interface Recovered {
  isRecovered: boolean;
  recoveredTo: string | null;
  position: string | null;
}

/** A restore whose tools are installed and whose parts join. Nothing has been written yet. */
export interface OpenRestore {
  /** True if the database user writes the parts; otherwise the target belongs to the agent during the restore. */
  isWrittenByUser?: boolean;
  /** The name of the only file of the snapshot of a part. */
  fileNameOf(part: ChainPart): string;
  /** Writes a part into the target, which may belong to the agent during the restore. */
  write(part: ChainPart, content: AsyncIterable<Uint8Array>, target: EmptyTarget): Promise<void>;
  /** Called after all parts, while the target still belongs to the agent. */
  beforeHandOver?: (target: EmptyTarget) => Promise<void>;
  /** The last step. The target belongs to the database user again. */
  recover(target: EmptyTarget): Promise<Recovered>;
}

export interface FileRestoreOrder
  extends Pick<
    RestorePayload,
    | 'instance'
    | 'parts'
    | 'pointInTime'
    | 'noRecovery'
    | 'restoreId'
    | 'targetPath'
    | 'targetDatabase'
    | 'timeoutSeconds'
  > {
  signal: AbortSignal;
  warn: (message: string) => void;
}

/** A restore whose server answers and does not have the database yet. Nothing has been written yet. */
export interface OpenFileRestore {
  /** Folder of the files during the restore, as this process sees it. */
  folder: string;
  fileNameOf(part: ChainPart): string;
  /** Applies the parts one after another. Returns how many bytes it has read. */
  apply(part: ChainPart, content: AsyncIterable<Uint8Array>): Promise<number>;
  /** The last step, after all parts. */
  finish(): Promise<Recovered>;
  /** Called after a failure: removes the partly restored database. */
  undo(): Promise<void>;
}

/** As many databases as fit into a message, and their number if there are more. */
export const listedDatabases = <T>(databases: readonly T[]): { databases: T[]; databaseCount?: number } =>
  databases.length <= DATABASES_MAX
    ? { databases: [...databases] }
    : { databases: databases.slice(0, DATABASES_MAX), databaseCount: databases.length };
