import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { EngineConfig, parseDocument } from '../output/documents.ts';
import { runDocument } from '../process/run-engine.ts';
import type { RunOptions } from '../process/start-engine.ts';

export interface InitOptions extends RunOptions {
  /** A repository whose chunks are cut in the same way, so that a copy from it stores nothing twice. */
  chunkedLike?: Repository | undefined;
}

/**
 * Creates a repository. Throws REPOSITORY_EXISTS where there is one. A restic that cannot take over how chunks are cut
 * makes a repository that cuts them in its own way: copies are the same there, only data that is backed up to it directly
 * would be stored a second time.
 */
export async function initRepository(
  engine: Engine,
  repository: Repository,
  { chunkedLike, ...options }: InitOptions = {},
): Promise<void> {
  if (chunkedLike !== undefined) {
    try {
      const args = () => ['init', '--copy-chunker-params'];
      await runDocument(engine, { ...options, repository, from: chunkedLike, args });
      return;
    } catch (error) {
      if (!(error instanceof EngineError) || error.code !== 'ENGINE_TOO_OLD') throw error;
    }
  }
  await runDocument(engine, { ...options, repository, args: () => ['init'] });
}

export async function readRepositoryId(
  engine: Engine,
  repository: Repository,
  options: RunOptions = {},
): Promise<string> {
  const args = () => ['cat', 'config'];
  const output = await runDocument(engine, { ...options, repository, noLock: true, args });
  return parseDocument(EngineConfig, output).id;
}
