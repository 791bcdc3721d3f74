import os from 'node:os';
import { z } from 'zod';
import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { CheckSummary, EngineLock, parseDocument } from '../process/documents.ts';
import { parseJson } from '../process/messages.ts';
import { runDocument, runLines, type RunOptions } from '../process/start-engine.ts';
import { shortened } from '../../protocol/index.ts';

/** Parts are numbered from 1. All parts together cover all data, which a random sample never does. */
export const ReadPart = z
  .strictObject({ part: z.number().int().min(1), of: z.number().int().min(1).max(256) })
  .refine(({ part, of }) => part <= of, 'the part must be among the parts');
export type ReadPart = z.infer<typeof ReadPart>;

export interface CheckResult {
  isSound: boolean;
  /** The first errors, as restic prints them. */
  errors: string[];
  /** True if there were more. */
  isCut: boolean;
}

const ERRORS_MAX = 100;
/** The last line of a check that has found errors. */
const HAS_ERRORS = /repository contains errors/i;
const ERROR_LENGTH_MAX = 500;

/**
 * Checks the structure of a repository, and the data of one part of its packs. It locks the repository exclusively, so
 * it fails with REPOSITORY_LOCKED during a backup.
 */
export async function checkRepository(
  engine: Engine,
  repository: Repository,
  { read }: { read?: ReadPart } = {},
  options: RunOptions = {},
): Promise<CheckResult> {
  const { part, of } = read === undefined ? {} : ReadPart.parse(read);
  const errors: string[] = [];
  let foundErrors = 0;
  let isCut = false;
  let saysSo = false;
  const end = await runLines(
    engine,
    {
      ...options,
      repository,
      args: () => ['check', ...(part === undefined ? [] : [`--read-data-subset=${part}/${of}`])],
      onErrorLine: (line) => {
        const text = errorText(line);
        if (text !== undefined && HAS_ERRORS.test(text)) {
          saysSo = true;
          return false;
        }
        if (text !== undefined && errors.length < ERRORS_MAX) errors.push(shortened(text, ERROR_LENGTH_MAX));
        else if (text !== undefined) isCut = true;
        return false;
      },
    },
    (line) => {
      foundErrors = CheckSummary.safeParse(parseJson(line)).data?.num_errors ?? foundErrors;
    },
  );
  if (end.exitCode === 0 && foundErrors === 0) return { isSound: true, errors: [], isCut: false };
  const failure = end.failure();
  const hasFault = foundErrors > 0 || saysSo;
  if (end.wasCancelled || !hasFault) throw failure;
  return { isSound: false, errors, isCut };
}

const CheckError = z.object({ message_type: z.enum(['error', 'exit_error']), message: z.string() });

function errorText(line: string): string | undefined {
  const parsed = CheckError.safeParse(parseJson(line));
  if (parsed.success) return parsed.data.message;
  return /^\s|returned error, retrying after/.test(line) || line === '' ? undefined : line;
}

export interface PruneOptions extends RunOptions {
  /** The most data that may be rewritten, which limits the duration. */
  maxRepackMiB?: number;
}

/**
 * Removes data that no snapshot needs. It can be interrupted at any time; version 0.14 then starts from the beginning.
 */
export async function prune(
  engine: Engine,
  repository: Repository,
  { maxRepackMiB, ...options }: PruneOptions = {},
): Promise<void> {
  const limit = maxRepackMiB === undefined ? [] : [`--max-repack-size=${Math.floor(maxRepackMiB)}M`];
  const end = await runLines(engine, { ...options, repository, args: () => ['prune', ...limit] }, () => {});
  if (end.exitCode !== 0) throw end.failure();
}

/**
 * Rebuilds the index from the packs. After an interrupted backup, this avoids uploading its packs again. With
 * `readAllPacks`, the current index is ignored.
 */
export async function rebuildIndex(
  engine: Engine,
  repository: Repository,
  { readAllPacks = false }: { readAllPacks?: boolean } = {},
  options: RunOptions = {},
): Promise<void> {
  const words = engine.program.capabilities.repairCommand ? ['repair', 'index'] : ['rebuild-index'];
  const args = () => [...words, ...(readAllPacks ? ['--read-all-packs'] : [])];
  const end = await runLines(engine, { ...options, repository, args }, () => {});
  if (end.exitCode !== 0) throw end.failure();
}

export interface RepositoryLock extends z.output<typeof EngineLock> {
  id: string;
}

const LOCKS_MAX = 20;
const LOCK_ID = /^[0-9a-f]{64}$/;

/** The locks of a repository. A lock that is removed meanwhile is left out. */
export async function listLocks(
  engine: Engine,
  repository: Repository,
  options: RunOptions = {},
): Promise<RepositoryLock[]> {
  const call = { ...options, repository, noLock: true };
  const output = await runDocument(engine, { ...call, args: () => ['list', 'locks'] });
  const ids = output.split('\n').filter((line) => LOCK_ID.test(line));
  if (ids.length > LOCKS_MAX) {
    throw new EngineError('REPOSITORY_LOCKED', { detail: `The repository has ${ids.length} locks.` });
  }
  const locks: RepositoryLock[] = [];
  for (const id of ids) {
    const content = await runDocument(engine, { ...call, args: () => ['cat', 'lock', id] }).catch(
      () => undefined,
    );
    if (content !== undefined) locks.push({ id, ...parseDocument(EngineLock, content) });
  }
  return locks;
}

/**
 * Removes stale locks of this machine: restic removes those older than 30 minutes, and those whose process on this
 * machine has ended. While a lock of another machine exists, nothing is removed, because a wrong clock would make an
 * active lock look old. Returns the remaining locks.
 */
export async function unlockOwn(
  engine: Engine,
  repository: Repository,
  { hostName = os.hostname() }: { hostName?: string } = {},
  options: RunOptions = {},
): Promise<RepositoryLock[]> {
  const locks = await listLocks(engine, repository, options);
  if (locks.length === 0 || locks.some(({ hostname }) => hostname !== hostName)) return locks;
  const end = await runLines(engine, { ...options, repository, args: () => ['unlock'] }, () => {});
  if (end.exitCode !== 0) throw end.failure();
  // restic prints that it has removed locks even if it has removed none.
  return listLocks(engine, repository, options);
}
