import { createHash, randomInt } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import {
  dump,
  type Engine,
  EngineError,
  isArgument,
  listEntries,
  type Repository,
  type RepositoryReader,
  SELECTED_MAX,
} from '../../../engine/index.ts';
import { pathBytes } from '../../../protocol/index.ts';
import type { SampleFile } from './verification.schema.ts';

interface Candidate {
  path: string;
  size: number;
  mtime: string;
}

const RANDOM_FILES = 7;
/** The sample is restored on the device and read by the server: it proves, it does not move the whole backup. */
const FILE_MAX = 256 * 2 ** 20;
const PARTS_MAX = 10_000;
/** A longer one may not be restorable below the folder of the agent: macOS opens paths of 1,023 bytes. */
const PATH_BYTES_MAX = 900;

/**
 * Files of a snapshot for a test restore: the one changed last, the one changed first, the largest of up to 256 MiB, and
 * seven at random. Each file has the same chance, whatever the size of the snapshot.
 */
export async function chooseSample(entries: AsyncIterable<Candidate>): Promise<Candidate[]> {
  const random: Candidate[] = [];
  const special: { newest?: Candidate; oldest?: Candidate; largest?: Candidate } = {};
  let seen = 0;
  for await (const entry of entries) {
    if (entry.size > FILE_MAX || pathBytes(entry.path).length > PATH_BYTES_MAX) continue;
    seen += 1;
    if (special.newest === undefined || entry.mtime > special.newest.mtime) special.newest = entry;
    if (special.oldest === undefined || entry.mtime < special.oldest.mtime) special.oldest = entry;
    if (special.largest === undefined || entry.size > special.largest.size) special.largest = entry;
    if (random.length < RANDOM_FILES) random.push(entry);
    else {
      const place = randomInt(seen);
      if (place < RANDOM_FILES) random[place] = entry;
    }
  }
  const chosen = [...Object.values(special), ...random];
  let length = 0;
  // The device restores all of them by one call of restic.
  return [...new Map(chosen.map((entry) => [entry.path, entry])).values()].filter(({ path }) => {
    length += path.length;
    return length <= SELECTED_MAX;
  });
}

export interface SampledSnapshot {
  engine: Engine;
  repository: Repository;
  snapshotId: string;
  /** Opens the repository for our own reader. Called only for names that are not UTF-8, which restic cannot be given. */
  openReader: () => Promise<RepositoryReader>;
}

/**
 * The sample of a snapshot, with the hashes of what the repository holds. The server computes them, not the device. `damaged`
 * are the files that could not be read here: one of them does not end the test of the others.
 */
export async function readSample(
  snapshot: SampledSnapshot,
  signal: AbortSignal,
): Promise<{ sample: SampleFile[]; damaged: string[] }> {
  const chosen = await chooseSample(filesOf(snapshot, signal));
  const sample: SampleFile[] = [];
  const damaged: string[] = [];
  for (const { path, size } of chosen) {
    try {
      sample.push({ path, sizeBytes: size, sha256: await hashOf(snapshot, path, signal) });
    } catch (error) {
      if (!(error instanceof EngineError) || !IS_OF_FILE.has(error.code)) throw error;
      damaged.push(`${path}: ${error.message}`.slice(0, ERROR_MAX));
    }
  }
  return { sample, damaged };
}

const IS_OF_FILE = new Set<string>(['PATH_MISSING', 'REPOSITORY_DAMAGED']);
const ERROR_MAX = 300;

async function hashOf(
  { engine, repository, snapshotId, openReader }: SampledSnapshot,
  path: string,
  signal: AbortSignal,
): Promise<string> {
  const hash = createHash('sha256');
  if (isArgument(path)) {
    await pipeline(dump(engine, repository, { snapshotId, path }, { signal }), hash);
    return hash.digest('hex');
  }
  const reader = await openReader();
  const query = { limits: { entries: 1, parts: PARTS_MAX }, signal };
  const opened = await reader.openContent({ snapshotId, path }, query);
  if (opened === 'too_large' || opened.type !== 'file') throw new EngineError('PATH_MISSING');
  for await (const piece of opened.content.read()) hash.update(piece);
  return hash.digest('hex');
}

async function* filesOf(
  { engine, repository, snapshotId, openReader }: SampledSnapshot,
  signal: AbortSignal,
): AsyncGenerator<Candidate, void> {
  const readNames = async (path: string) => {
    const { entries } = await (await openReader()).listFolder({
      snapshotId,
      path,
      offset: 0,
      limit: Infinity,
    });
    return entries.map(({ name }) => name);
  };
  const entries = listEntries(engine, repository, { snapshotId, readNames }, { signal });
  for await (const { path, type, size = 0, mtime = '' } of entries) {
    if (type === 'file') yield { path, size, mtime };
  }
}
