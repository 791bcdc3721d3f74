import {
  addKeyVersion,
  type Engine,
  EngineError,
  initRepository,
  removeOtherKeys,
  type Repository,
  unlockOwn,
} from '../../../engine/index.ts';

/** By these names in the clear, a key of a repository shows which version of the encryption key it is. */
export const keyLabel = (version: number) => ({ user: 'muster', host: `v${version}` });

/**
 * Makes a repository that restic can open. Can be repeated after it was interrupted anywhere. Answers the id of the only
 * key of the repository.
 */
export async function makeRepository(
  engine: Engine,
  repository: Repository,
  {
    version,
    chunkedLike,
    signal,
  }: {
    version: number;
    /** A repository whose chunks are cut in the same way. */
    chunkedLike?: Repository | undefined;
    signal: AbortSignal;
  },
): Promise<string> {
  const label = keyLabel(version);
  try {
    return (await initRepository(engine, repository, { label, chunkedLike, signal })).keyId;
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== 'REPOSITORY_EXISTS') throw error;
  }
  // An earlier attempt has made it, and was stopped before its key had the label, or before this was noted.
  await unlockOwn(engine, repository, {}, { signal });
  const { password } = repository;
  const keyHint = await addKeyVersion(engine, repository, { password, label }, { signal });
  const { keyId } = await removeOtherKeys(engine, { ...repository, keyHint }, label, { signal });
  return keyId;
}
