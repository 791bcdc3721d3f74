import { clock } from '../../../clock.ts';
import type { Context, DetachedContext } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { BACKUP_TIMEOUT_SECONDS, type CommandPayload, type CommandSecrets } from '../../../protocol/index.ts';
import type { RepositoryPassword } from '../access/repository-passwords.ts';
import { answeringFailures } from '../reading/engine-failures.ts';
import { openSnapshot, type SnapshotQuery, type SnapshotState } from '../reading/open-snapshot.ts';
import type { OpenedImages, VolumeQuery } from '../reading/images/opened-images.ts';
import type { RepositoryReaders } from '../reading/repository-readers.ts';
import { issueCredential } from '../store/records/credentials.ts';

/** What a device is given to read a repository. */

/** How long a restore waits for its device. */
export const TTL_SECONDS = 24 * 3600;
/** Beyond the time that the device has: for its result, which ends the credential. */
const MARGIN_SECONDS = 1800;

export interface RestoreSource extends SnapshotState {
  access: RepositoryPassword;
}

interface SourceQuery extends SnapshotQuery {
  selectedPaths?: readonly string[] | undefined;
}

/**
 * Opens the snapshot before anything is made: a device is not sent for what cannot be read. Throws `validation_failed`
 * for a path that is not in it.
 */
export async function openSource(
  ctx: DetachedContext,
  { selectedPaths = [], ...query }: SourceQuery,
  readers: RepositoryReaders,
): Promise<RestoreSource> {
  const { reader, access, ...state } = await openSnapshot(ctx, query, readers);
  const { engineId } = state.snapshot;
  await assertFound(selectedPaths, 'the snapshot', (path) => reader.findEntry(engineId, path));
  return { ...state, access };
}

export interface VolumeReaders {
  readers: RepositoryReaders;
  images: OpenedImages;
}

/** The same for a volume of an image, in which the paths are. */
export async function openVolumeSource(
  ctx: DetachedContext,
  { selectedPaths = [], volume, ...query }: SourceQuery & { volume: VolumeQuery },
  { readers, images }: VolumeReaders,
  signal: AbortSignal,
): Promise<RestoreSource & { imagePath: string }> {
  const { reader, access, ...state } = await openSnapshot(ctx, query, readers);
  const { files, imagePath } = await answeringFailures(() =>
    images.openVolume(reader, state.snapshot, volume, { fields: 'body.volume', signal }),
  );
  await assertFound(selectedPaths, 'the volume', (path) => files.findEntry(path));
  return { ...state, access, imagePath };
}

async function assertFound(
  paths: readonly string[],
  where: string,
  find: (path: string) => Promise<unknown>,
): Promise<void> {
  for (const [index, path] of paths.entries()) {
    await answeringFailures(() => find(path)).catch((error: unknown) => {
      if (!(error instanceof AppError) || error.code !== 'not_found') throw error;
      throw invalid(`body.selectedPaths.${index}`, `must be a path in ${where}`);
    });
  }
}

interface DeviceAccess {
  repository: CommandPayload<'backup.restore'>['repository'];
  values: CommandSecrets;
  credentialId: string;
}

/** A credential that reads this one repository until the restore ends. The secrets are in `values` only. */
export async function accessForDevice(
  { tx }: Pick<Context, 'tx'>,
  { repository, asOf, access }: RestoreSource,
  restoreId: string,
): Promise<DeviceAccess> {
  const seconds = TTL_SECONDS + BACKUP_TIMEOUT_SECONDS + MARGIN_SECONDS;
  const credential = await issueCredential(tx, {
    repositoryId: repository.id,
    role: asOf === null ? 'reader' : 'as-of',
    ...(asOf === null ? {} : { asOf }),
    jobId: restoreId,
    expiresAt: new Date(clock.now() + seconds * 1000),
  });
  const [password, secret] = [{ secretRef: newId() }, { secretRef: newId() }];
  return {
    repository: {
      destination: {
        type: 'server',
        path: `/backup-store/${repository.id}/`,
        user: credential.user,
        secret,
      },
      password,
      ...omitUndefined({ keyHint: access.keyHint }),
    },
    values: { [password.secretRef]: access.password, [secret.secretRef]: credential.secret },
    credentialId: credential.id,
  };
}
