import path from 'node:path';
import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { SnapshotId } from '../output/documents.ts';
import { type EngineEnd, type RunOptionsWithoutSignal, startEngine } from '../process/start-engine.ts';

/**
 * Serves a repository as a read-only file system. restic goes on when this process ends, so a caller records the process
 * that `onStart` names. Without a lock: nothing may remove what it serves, which is for the caller to ensure.
 * @param folder  where it is mounted; something else that is mounted there would only be hidden
 * @param errors  a descriptor for what restic prints
 * @returns how it has ended, when it has
 */
export function mountRepository(
  engine: Engine,
  repository: Repository,
  { folder, errors }: { folder: string; errors: number },
  options: RunOptionsWithoutSignal,
): Promise<EngineEnd> {
  const words = ['mount', '--path-template', '%I', folder];
  const call = { ...options, repository, noLock: true, outlives: { errors }, args: () => words };
  return startEngine(engine, call).ended;
}

/** The folder of a snapshot in a mounted repository. */
export const mountedFolder = (folder: string, snapshotId: string) =>
  path.join(folder, SnapshotId.parse(snapshotId));
