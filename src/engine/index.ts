/** restic, the backup engine of the server and the agent. */

export { newKeyFile, newRepository, openConfig } from './repository/keys.ts';
export { backup, backupStream } from './operations/backup.ts';
export {
  copySnapshots,
  initRepository,
  readRepositoryId,
  mountRepository,
  mountedFolder,
  forgetSnapshots,
  listSnapshots,
  readStats,
} from './operations/repositories.ts';
export {
  diffSnapshots,
  dump,
  listEntries,
  exactPath,
  SelectedPaths,
  isArgument,
  SnapshotPath,
  includePattern,
  literalPattern,
  PathList,
  type PathReport,
} from './operations/paths.ts';
export { checkRepository, listLocks, prune, rebuildIndex, unlockOwn } from './operations/maintenance.ts';
export { restore, SELECTED_MAX } from './operations/restore.ts';
export {
  findCorruptPacks,
  findUnreadableSnapshots,
  findIncompleteSnapshots,
} from './repository/integrity.ts';
export { type FileSystemReader, openExt } from './filesystems/ext-file-system.ts';
export type { VolumeEntry } from './filesystems/ext-tree.ts';
export { volumeOf } from './filesystems/volume-bytes.ts';
export { folderSource, type ObjectSource, type ObjectType } from './repository/object-encoding.ts';
export type {
  Difference,
  FolderItem,
  LeftOutQuery,
  OpenedFile,
  OpenedFolder,
} from './repository/contents.ts';
export type { FileContent } from './repository/file-content.ts';
export {
  type ListedEntry,
  openDescriptions,
  openRepository,
  type RepositoryReader,
} from './repository/open-repository.ts';
export {
  DiskName,
  MachineDescription,
  type MachineDisk,
  type MachineVolume,
  type PartitionTable as MachinePartitionTable,
  type DiskPlace,
  imageDetailsOf,
  layoutOf,
  MACHINE_FILE,
  MACHINE_PATH,
  writeMachine,
  findVolume,
  type OpenedMachine,
  openMachine,
  openMachineIn,
} from './machine-image.ts';
export { Destination, Repository } from './destination.ts';
export { EngineCode, EngineError } from './engine-error.ts';
export {
  type Engine,
  openEngine,
  isEngineThere,
  EngineProbe,
  type EngineProgram,
  probeEngine,
} from './engine.ts';
export type { EngineEntry, ReadNames } from './process/documents.ts';
export { type EngineProgress, ProgressMeter } from './process/progress.ts';
export type { RunOptions } from './process/start-engine.ts';
export {
  decodeTarHeader,
  encodeTarHeader,
  type ReadTarEntry,
  readTar,
  shownName,
  TAR_BLOCK,
  TAR_END,
  type TarEntry,
  TarError,
  tarPaddingOf,
} from './tar.ts';
