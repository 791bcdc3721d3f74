import { createHash, randomInt } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import { clock } from '../../clock.ts';
import {
  dump,
  type Engine,
  EngineError,
  isArgument,
  listEntries,
  type Repository,
  type RepositoryReader,
  SELECTED_MAX,
} from '../../engine/index.ts';
import type { DeviceHub } from '../../hub/index.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { COMMANDS, pathBytes, shortened } from '../../protocol/index.ts';
import { type BackupRepository, issueCredential, type ObjectStorage } from '../backup-store/index.ts';
import { type AddedCommand, addServerCommand, type EndedCommand } from '../commands/index.ts';
import { checkImages, imagesOf } from './image-check.ts';
import { type BackupVerification, VerificationFacts } from './protection.model.ts';
import {
  type RepositoryAccessParts,
  repositoryPassword,
  storePath,
  withRepository,
} from './repository-access.ts';
import { RepositoryReaders } from './repository-readers.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import type { SampleFile, Verdict, VerificationDetails } from './verification.schema.ts';

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

interface SampledSnapshot {
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
async function readSample(
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
      damaged.push(shortened(`${path}: ${error.message}`, ERROR_MAX));
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

export interface TestRestoreParts extends RepositoryAccessParts {
  hub: DeviceHub;
  storage: ObjectStorage;
}

/** How long the device has to come back, and then to restore the sample. */
const TTL_SECONDS = 6 * 3600;
const TIMEOUT_SECONDS = 2 * 3600;

/** Chooses a sample and gives it to the device to restore. What the device answers is judged by `judgeTestRestore`. */
export async function beginTestRestore(
  parts: TestRestoreParts,
  verification: BackupVerification,
  repository: BackupRepository,
  signal: AbortSignal,
): Promise<Verdict | { give: (tx: Tx) => Promise<AddedCommand> }> {
  const snapshot = await snapshotOf(parts, verification, repository.id);
  if (snapshot === undefined) {
    return failed(
      'SNAPSHOT_MISSING',
      'There is no snapshot to restore from that is small enough for a test.',
    );
  }
  if (imagesOf(snapshot) !== undefined) return checkImages(parts, { repository, snapshot }, signal);
  const readers = new RepositoryReaders({ db: parts.db, storage: parts.storage, encryptor: parts.secrets });
  const openReader = async () => (await readers.open(repository, null)).reader;
  const { sample, damaged } = await withRepository(
    parts,
    { repositoryId: repository.id, role: 'reader' },
    (engine, opened) =>
      readSample({ engine, repository: opened, snapshotId: snapshot.engineId, openReader }, signal),
  );
  if (sample.length === 0) {
    return damaged[0] === undefined
      ? failed('SOURCE_UNREADABLE', 'The snapshot holds no file that a test could restore.')
      : failed('REPOSITORY_DAMAGED', `No file of the sample can be read. ${damaged[0]}`);
  }
  const details = { sample, ...(damaged.length === 0 ? {} : { errors: damaged }) };
  return { give: (tx) => handOver(tx, parts, { verification, repository, snapshot, details }) };
}

const failed = (errorCode: string, errorMessage: string): Verdict => ({
  status: 'failed',
  errorCode,
  errorMessage,
});

interface HandedOver {
  verification: BackupVerification;
  repository: BackupRepository;
  snapshot: BackupSnapshot;
  details: VerificationDetails & { sample: SampleFile[] };
}

async function handOver(
  tx: Tx,
  { secrets }: TestRestoreParts,
  { verification, repository, snapshot, details }: HandedOver,
) {
  const { password, keyHint } = await repositoryPassword(tx, repository, secrets);
  const credential = await issueCredential(tx, {
    repositoryId: repository.id,
    role: 'reader',
    jobId: verification.id,
    expiresAt: new Date(clock.now() + (TTL_SECONDS + TIMEOUT_SECONDS) * 1000),
  });
  const [passwordRef, secretRef] = [newId(), newId()];
  const command = await addServerCommand(
    tx,
    { id: verification.deviceId, orgId: verification.orgId },
    {
      type: 'backup.verify',
      payload: {
        verificationId: verification.id,
        repository: {
          destination: {
            type: 'server',
            path: storePath(repository.id),
            user: credential.user,
            secret: { secretRef },
          },
          password: { secretRef: passwordRef },
          ...omitUndefined({ keyHint }),
        },
        snapshotId: snapshot.engineId,
        paths: details.sample.map(({ path }) => path),
        timeoutSeconds: TIMEOUT_SECONDS,
      },
      ttlSeconds: TTL_SECONDS,
      timeoutSeconds: TIMEOUT_SECONDS,
      secrets: { values: { [passwordRef]: password, [secretRef]: credential.secret }, encryptor: secrets },
      createdBy: verification.createdBy,
    },
  );
  await VerificationFacts.query(tx).findById(verification.id).patch({
    snapshotId: snapshot.id,
    details,
  });
  return command;
}

/** A snapshot of a database is one file. A larger one would take the room and the time of a restore. */
const SAMPLE_BYTES_MAX = 1024 ** 3;

/** Selects images. A test restores single files out of them. */
const IS_IMAGE = `details ->> 'kind' = 'image' or details ->> 'hypervisor' = 'kvm'`;

const snapshotOf = (
  { db }: TestRestoreParts,
  { snapshotId }: BackupVerification,
  repositoryId: string,
): Promise<BackupSnapshot | undefined> =>
  withSystem(db, 'choose the snapshot of a test restore', async (tx) => {
    const snapshots = BackupSnapshot.query(tx).where('repository_id', repositoryId).whereNull('removed_at');
    return snapshotId === null
      ? snapshots
          .whereRaw(`(details is null or size_bytes <= ? or ${IS_IMAGE})`, [SAMPLE_BYTES_MAX])
          .orderBy('received_at', 'desc')
          .first()
      : snapshots.findById(snapshotId);
  });

/** Compares what the device has restored with what the repository holds. */
export function judgeTestRestore(
  { details }: Pick<BackupVerification, 'details'>,
  end: Pick<EndedCommand, 'status' | 'output' | 'error'>,
): Verdict {
  if (end.status !== 'succeeded') {
    const { code = end.status.toUpperCase(), message = 'The device did not restore the sample.' } =
      end.error ?? {};
    return failed(code.slice(0, 64), shortened(message, 2000));
  }
  const output = COMMANDS['backup.verify'].output.safeParse(end.output);
  if (!output.success) return failed('BAD_RESULT', 'The result of the device could not be read.');
  const restored = new Map(output.data.files.map((file) => [file.path, file]));
  const sample = (details.sample ?? []).map((file) => ({
    ...file,
    restoredSha256: restored.get(file.path)?.sha256 ?? null,
  }));
  const good = sample.filter(({ sha256, restoredSha256 }) => sha256 === restoredSha256);
  const judged: VerificationDetails = { ...details, sample };
  const bad = sample.length - good.length + (details.errors?.length ?? 0);
  return {
    status: good.length === 0 ? 'failed' : bad === 0 ? 'passed' : 'partial',
    filesVerified: good.length,
    filesFailed: bad,
    sizeBytes: String(good.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)),
    restoreSeconds: output.data.seconds,
    details: judged,
  };
}
