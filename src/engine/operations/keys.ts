import { RepositoryPassword, type Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { type EngineKey, EngineKeys, parseDocument } from '../output/documents.ts';
import { runDocument } from '../process/run-engine.ts';
import type { RunOptions } from '../process/start-engine.ts';

/** The two names that a key carries in the clear, by which its version is recognized. */
export interface KeyLabel {
  user: string;
  host: string;
}

export interface NewKey {
  password: string;
  label: KeyLabel;
}

export async function listKeys(
  engine: Engine,
  repository: Repository,
  options: RunOptions = {},
): Promise<EngineKey[]> {
  const args = () => ['key', 'list'];
  return parseDocument(EngineKeys, await runDocument(engine, { ...options, repository, noLock: true, args }));
}

/** Adds a key and returns its id. */
export async function addKey(
  engine: Engine,
  repository: Repository,
  { password, label }: NewKey,
  options: RunOptions = {},
): Promise<string> {
  const newPassword = RepositoryPassword.parse(password);
  const before = new Set((await listKeys(engine, repository, options)).map(({ id }) => id));
  await runDocument(engine, {
    ...options,
    repository,
    secrets: [newPassword],
    args: (addSecret) => [
      'key',
      'add',
      '--new-password-file',
      addSecret(newPassword),
      '--user',
      label.user,
      '--host',
      label.host,
    ],
  });
  const added = (await listKeys(engine, repository, options)).find(
    (key) => !before.has(key.id) && isLabelled(key, label),
  );
  if (added === undefined) throw new EngineError('ENGINE_FAILED', { detail: 'The new key is not listed.' });
  return added.id;
}

/** Removes a key that is not the one of `repository`. A key that is not there any more is removed already. */
export async function removeKey(
  engine: Engine,
  repository: Repository,
  keyId: string,
  options: RunOptions = {},
): Promise<void> {
  const keys = await listKeys(engine, repository, options);
  if (!keys.some(({ id }) => id.startsWith(keyId))) return;
  await runDocument(engine, { ...options, repository, args: () => ['key', 'remove', keyId] });
}

/**
 * First step of a rotation: makes the new password open the repository beside the old one. It can be repeated after it
 * was interrupted anywhere. Returns the id of the new key.
 */
export async function addKeyVersion(
  engine: Engine,
  repository: Repository,
  next: NewKey,
  options: RunOptions = {},
): Promise<string> {
  return (
    (await openedBy(engine, withPassword(repository, next.password), next.label, options)) ??
    (await addKey(engine, repository, next, options))
  );
}

/**
 * Second step: removes every key but the one with this label that the password of `repository` opens. It can be
 * repeated. A person who has copied the repository's master key can still read it: see docs/decisions/backup-engine.md.
 */
export async function removeOtherKeys(
  engine: Engine,
  repository: Repository,
  label: KeyLabel,
  options: RunOptions = {},
): Promise<{ keyId: string; removed: string[] }> {
  const keyId = await openedBy(engine, repository, label, options);
  if (keyId === undefined) throw new EngineError('WRONG_KEY');
  const kept = { ...repository, keyHint: keyId };
  const others = (await listKeys(engine, kept, options)).filter(({ current }) => !current);
  for (const { id } of others) {
    await runDocument(engine, { ...options, repository: kept, args: () => ['key', 'remove', id] });
  }
  return { keyId, removed: others.map(({ id }) => id) };
}

/** The id of the key with this label that the password opens. */
async function openedBy(
  engine: Engine,
  repository: Repository,
  label: KeyLabel,
  options: RunOptions,
): Promise<string | undefined> {
  try {
    const keys = await listKeys(engine, repository, options);
    return keys.find((key) => key.current && isLabelled(key, label))?.id;
  } catch (error) {
    if (error instanceof EngineError && error.code === 'WRONG_KEY') return undefined;
    throw error;
  }
}

const isLabelled = (key: EngineKey, { user, host }: KeyLabel) =>
  key.userName === user && key.hostName === host;

function withPassword({ destination }: Repository, password: string): Repository {
  return { destination, password: RepositoryPassword.parse(password) };
}
