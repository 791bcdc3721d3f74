/** restic, as the one engine of backups, for the server and the agent. */

export { newKeyFile } from './creation/new-key.ts';
export { newRepository } from './creation/new-repository.ts';
export { backup } from './operations/backup.ts';
export { backupStream } from './operations/backup-stream.ts';
export { copySnapshots } from './operations/copy.ts';
export { diffSnapshots, dump, listEntries } from './operations/files.ts';
export { exactPath } from './operations/found-path.ts';
export { initRepository, readRepositoryId } from './operations/init.ts';
export { checkRepository, listLocks, prune, rebuildIndex, unlockOwn } from './operations/maintenance.ts';
export { mountRepository, mountedFolder } from './operations/mount.ts';
export { restore, SELECTED_MAX } from './operations/restore.ts';
export { SelectedPaths } from './operations/selected-paths.ts';
export { isArgument, SnapshotPath } from './operations/snapshot-path.ts';
export { forgetSnapshots, listSnapshots, readStats } from './operations/snapshots.ts';
export { findFalsePacks, findUnreadableSnapshots } from './falsehoods/false-packs.ts';
export { findIncompleteSnapshots } from './falsehoods/incomplete-snapshots.ts';
export { type FileSystemReader, openExt } from './filesystems/ext/ext-file-system.ts';
export type { VolumeEntry } from './filesystems/ext/tree.ts';
export { volumeOf } from './filesystems/volume-bytes.ts';
export { folderSource } from './reader/folder-source.ts';
export { openConfig } from './reader/keys.ts';
export type { ObjectSource, ObjectType } from './reader/object-source.ts';
export type { Difference } from './reader/compare.ts';
export type { FileContent } from './reader/file-content.ts';
export type { FolderItem, LeftOutQuery, OpenedFile, OpenedFolder } from './reader/contents.ts';
export {
  type ListedEntry,
  openDescriptions,
  openRepository,
  type RepositoryReader,
} from './reader/open-repository.ts';
export {
  DiskName,
  MachineDescription,
  type MachineDisk,
  type MachineVolume,
  type PartitionTable as MachinePartitionTable,
} from './machine/description.ts';
export {
  type DiskPlace,
  imageDetailsOf,
  layoutOf,
  MACHINE_FILE,
  MACHINE_PATH,
  writeMachine,
} from './machine/layout.ts';
export { findVolume } from './machine/find-volume.ts';
export { type OpenedMachine, openMachine, openMachineIn } from './machine/read-machine.ts';
export { Destination, Repository } from './destination.ts';
export { EngineCode, EngineError } from './engine-error.ts';
export { type Engine, openEngine } from './engine.ts';
export { includePattern, literalPattern } from './output/literal-pattern.ts';
export type { EngineEntry } from './output/documents.ts';
export type { ReadNames } from './output/exact-names.ts';
export { PathList, type PathReport } from './output/path-list.ts';
export { type EngineProgress, ProgressMeter } from './output/progress.ts';
export type { RunOptions } from './process/start-engine.ts';
export { isEngineThere } from './program/find-engine.ts';
export { EngineProbe, type EngineProgram, probeEngine } from './program/probe.ts';
