import type {
  CommandPayload,
  DatabaseDetails,
  DatabaseEngine,
  DatabaseInstance,
} from '../../../protocol/index.ts';
import type { EmptyTarget } from './empty-target.ts';

/** How one kind of database servers is backed up and restored. */
export interface DatabasePort {
  engine: DatabaseEngine;
  /** The servers that run on this machine. Without it, something else lists them. */
  discover?: (signal: AbortSignal) => Promise<DatabaseInstance[]>;
  openBackup(order: BackupOrder): Promise<OpenBackup>;
  /** Into a folder, in which a server of its own is recovered. */
  openRestore?: (order: RestoreOrder) => Promise<OpenRestore>;
  /** As a new database of a server that runs. */
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
  /** How much it will be about, for the progress. */
  expectedBytes: number | null;
  /** Asked after the end of the content. Rejects where the content is not whole. */
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
  /** Records a process that a later agent has to end. */
  record: (pid: number) => Promise<() => Promise<void>>;
}

export interface Recovered {
  isRecovered: boolean;
  recoveredTo: string | null;
  position: string | null;
}

/** A restore whose tools are there and whose parts join: nothing has been written yet. */
export interface OpenRestore {
  /** The parts are written by the user of the database, and not by the agent, to whom the target belongs otherwise. */
  isWrittenByUser?: boolean;
  /** The name of the only file of the snapshot of a part. */
  fileNameOf(part: ChainPart): string;
  /** Writes a part into the target, which may belong to the agent meanwhile. */
  write(part: ChainPart, content: AsyncIterable<Uint8Array>, target: EmptyTarget): Promise<void>;
  /** After all parts, while the target still belongs to the agent. */
  beforeHandOver?: (target: EmptyTarget) => Promise<void>;
  /** At the end. The target belongs to the user of the database again. */
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

/** A restore whose server answers and has no such database: nothing has been written yet. */
export interface OpenFileRestore {
  /** Where files lie while they are restored, as this process sees it. */
  folder: string;
  fileNameOf(part: ChainPart): string;
  /** Applies one part after another. Returns how many bytes it has read. */
  apply(part: ChainPart, content: AsyncIterable<Uint8Array>): Promise<number>;
  /** At the end, after the last part. */
  finish(): Promise<Recovered>;
  /** After a failure: what was made of the parts so far is removed. */
  undo(): Promise<void>;
}
