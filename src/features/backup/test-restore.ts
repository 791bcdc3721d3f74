import { clock } from '../../../clock.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { COMMANDS } from '../../../protocol/index.ts';
import { addServerCommand, announceCommands, type EndedCommand } from '../../commands/index.ts';
import { type RepositoryAccessParts, storePath, withRepository } from '../access/open-repository.ts';
import { repositoryPassword } from '../access/repository-passwords.ts';
import { RepositoryReaders } from '../reading/repository-readers.ts';
import type { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { issueCredential } from '../store/records/credentials.ts';
import type { ObjectStorage } from '../store/storage/storage.ts';
import { checkImages, imagesOf } from './image-check.ts';
import { readSample } from './sample.ts';
import { BackupVerification } from './verification.model.ts';
import type { SampleFile, VerificationDetails } from './verification.schema.ts';

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
): Promise<Partial<BackupVerification> | 'handed_over'> {
  const snapshot = await snapshotOf(parts, verification, repository.id);
  if (snapshot === undefined) {
    return failed(
      'SNAPSHOT_MISSING',
      'There is no snapshot to restore from that is small enough for a test.',
    );
  }
  if (imagesOf(snapshot) !== undefined) return checkImages(parts, { repository, snapshot }, signal);
  const readers = new RepositoryReaders({ db: parts.db, storage: parts.storage, sealer: parts.secrets });
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
  const command = await withSystem(parts.db, 'hand a test restore to its device', (tx) =>
    handOver(tx, parts, { verification, repository, snapshot, details }),
  );
  announceCommands(parts.hub, [command]);
  return 'handed_over';
}

const failed = (errorCode: string, errorMessage: string): Partial<BackupVerification> => ({
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
      secrets: { values: { [passwordRef]: password, [secretRef]: credential.secret }, sealer: secrets },
      createdBy: verification.createdBy,
    },
  );
  await BackupVerification.query(tx).findById(verification.id).patch({
    snapshotId: snapshot.id,
    commandId: command.id,
    credentialId: credential.id,
    details,
  });
  return command;
}

/** A snapshot of a database is one file. A larger one would take the room and the time of a restore. */
const SAMPLE_BYTES_MAX = 1024 ** 3;

/** Of those, files are taken out. */
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
): Partial<BackupVerification> {
  if (end.status !== 'succeeded') {
    const { code = end.status.toUpperCase(), message = 'The device did not restore the sample.' } =
      end.error ?? {};
    return failed(code.slice(0, 64), message.slice(0, 2000));
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
