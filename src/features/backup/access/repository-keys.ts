import { buffer } from 'node:stream/consumers';
import { EngineError, newKeyFile, openConfig } from '../../../engine/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { storeSource } from '../store/records/store-source.ts';
import { discardObject, putObject } from '../store/records/own-objects.ts';
import type { StoreAccess } from '../store/records/credentials.ts';
import type { ObjectStorage } from '../store/storage/storage.ts';

/** The keys of repositories in the backup store, which the server writes and removes without restic. */

interface StoreParts {
  db: Db;
  storage: ObjectStorage;
}

export const CONFIG = { type: 'config', name: 'config' } as const;

/** By these names in the clear, a key of a repository shows which version of the encryption key it is. */
export const keyLabel = (version: number) => ({ user: 'muster', host: `v${version}` });

/** Throws WRONG_KEY where the password opens none of the keys of the repository. */
export async function openStoredConfig({ db, storage }: StoreParts, repositoryId: string, password: string) {
  const stream = await storage.read(repositoryId, { ...CONFIG, trashedAt: null }, undefined);
  if (stream === undefined) throw new EngineError('REPOSITORY_MISSING');
  const source = storeSource({ db, storage }, { repositoryId, asOf: null });
  return openConfig(source, await buffer(stream), { password });
}

/** Lets a password open the repository, beside the one that opens it now. Can be repeated. Answers the id of its key. */
export async function addKey(
  parts: StoreParts,
  access: Pick<StoreAccess, 'repositoryId' | 'credentialId'>,
  { now, next, version }: { now: string; next: string; version: number },
): Promise<string> {
  const { repositoryId } = access;
  const opened = await openStoredConfig(parts, repositoryId, next).catch(unlessWrong);
  if (opened !== undefined) return opened.keyId;
  const { master } = await openStoredConfig(parts, repositoryId, now);
  const key = await newKeyFile(master, { password: next, label: keyLabel(version) });
  await putObject(parts, access, { type: 'keys', name: key.id }, key.content);
  return key.id;
}

/** Moves every other key to the trash. */
export async function keepOneKey(
  { db, storage }: StoreParts,
  repositoryId: string,
  keyId: string,
): Promise<void> {
  for await (const { name } of storeSource({ db, storage }, { repositoryId, asOf: null }).list('key')) {
    if (name !== keyId) await discardObject({ db, storage }, repositoryId, { type: 'keys', name });
  }
}

function unlessWrong(error: unknown): undefined {
  if (error instanceof EngineError && error.code === 'WRONG_KEY') return undefined;
  throw error;
}
