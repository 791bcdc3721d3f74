import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { EngineConfig, initializedId, parseDocument } from '../output/documents.ts';
import { runDocument } from '../process/run-engine.ts';
import type { RunOptions } from '../process/start-engine.ts';
import { addKey, type KeyLabel, listKeys, removeKey } from './keys.ts';

export interface InitOptions extends RunOptions {
  /** Labels the only key of the repository. Otherwise restic labels it with the user and the name of this machine. */
  label?: KeyLabel;
  /** A repository whose chunks are cut in the same way, so that a copy from it stores nothing twice. */
  chunkedLike?: Repository | undefined;
}

export interface NewRepository {
  repositoryId: string;
  /** For `keyHint`. */
  keyId: string;
}

/** Creates a repository. Throws REPOSITORY_EXISTS where there is one. */
export async function initRepository(
  engine: Engine,
  repository: Repository,
  { label, chunkedLike, ...options }: InitOptions = {},
): Promise<NewRepository> {
  const output = await initialize(engine, repository, { chunkedLike, ...options });
  const repositoryId = initializedId(output) ?? (await readRepositoryId(engine, repository, options));
  const [first] = await listKeys(engine, repository, options);
  const firstId = first?.id ?? '';
  if (label === undefined) return { repositoryId, keyId: firstId };
  // `init` cannot label its key, so a second key with the same password replaces it.
  const keyId = await addKey(engine, repository, { password: repository.password, label }, options);
  await removeKey(engine, { ...repository, keyHint: keyId }, firstId, options);
  return { repositoryId, keyId };
}

/**
 * A restic that cannot take over how chunks are cut makes a repository that cuts them in its own way: copies are the same
 * there, only data that is backed up to it directly would be stored a second time.
 */
async function initialize(
  engine: Engine,
  repository: Repository,
  { chunkedLike, ...options }: Omit<InitOptions, 'label'>,
): Promise<string> {
  if (chunkedLike !== undefined) {
    try {
      const args = () => ['init', '--copy-chunker-params'];
      return await runDocument(engine, { ...options, repository, from: chunkedLike, args });
    } catch (error) {
      if (!(error instanceof EngineError) || error.code !== 'ENGINE_TOO_OLD') throw error;
    }
  }
  return runDocument(engine, { ...options, repository, args: () => ['init'] });
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
