import { createHash, randomInt } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import { dump, type Engine, listEntries, type Repository } from '../../../engine/index.ts';
import type { SampleFile } from './verification.schema.ts';

interface Candidate {
  path: string;
  size: number;
  mtime: string;
}

const RANDOM_FILES = 7;
/** The sample is restored on the device and read by the server: it proves, it does not move the whole backup. */
const FILE_MAX = 256 * 2 ** 20;
/** What a path of the command may have. */
const PATH_MAX = 4096;

/**
 * Files of a snapshot for a test restore: the one changed last, the one changed first, the largest of up to 256 MiB, and
 * seven at random. Each file has the same chance, whatever the size of the snapshot.
 */
export async function chooseSample(entries: AsyncIterable<Candidate>): Promise<Candidate[]> {
  const random: Candidate[] = [];
  const special: { newest?: Candidate; oldest?: Candidate; largest?: Candidate } = {};
  let seen = 0;
  for await (const entry of entries) {
    if (entry.size > FILE_MAX || entry.path.length > PATH_MAX) continue;
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
  return [...new Map(chosen.map((entry) => [entry.path, entry])).values()];
}

/** The sample of a snapshot, with the hashes of what the repository holds. The server computes them, not the device. */
export async function readSample(
  engine: Engine,
  repository: Repository,
  snapshotId: string,
  signal: AbortSignal,
): Promise<SampleFile[]> {
  const chosen = await chooseSample(filesOf(engine, repository, snapshotId, signal));
  const sample: SampleFile[] = [];
  for (const { path, size } of chosen) {
    const hash = createHash('sha256');
    await pipeline(dump(engine, repository, { snapshotId, path }, { signal }), hash);
    sample.push({ path, sizeBytes: size, sha256: hash.digest('hex') });
  }
  return sample;
}

async function* filesOf(
  engine: Engine,
  repository: Repository,
  snapshotId: string,
  signal: AbortSignal,
): AsyncGenerator<Candidate, void> {
  for await (const { path, type, size = 0, mtime = '' } of listEntries(
    engine,
    repository,
    { snapshotId },
    { signal },
  )) {
    if (type === 'file') yield { path, size, mtime };
  }
}
