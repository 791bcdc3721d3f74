import type { Context, DetachedContext } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { BACKUP_TIMEOUT_SECONDS, type CommandPayload, type CommandSecrets } from '../../../protocol/index.ts';
import type { RepositoryPassword } from '../access/repository-passwords.ts';
import { answeringFailures } from '../reading/engine-failures.ts';
import { openSnapshot, type SnapshotQuery, type SnapshotState } from '../reading/open-snapshot.ts';
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

/**
 * Opens the snapshot before anything is made: a device is not sent for what cannot be read. Throws `validation_failed`
 * for a path that is not in it.
 */
export async function openSource(
  ctx: DetachedContext,
  { selectedPaths = [], ...query }: SnapshotQuery & { selectedPaths?: readonly string[] | undefined },
  readers: RepositoryReaders,
): Promise<RestoreSource> {
  const { reader, access, ...state } = await openSnapshot(ctx, query, readers);
  const { engineId } = state.snapshot;
  for (const [index, path] of selectedPaths.entries()) {
    await answeringFailures(() => reader.findEntry(engineId, path)).catch((error: unknown) => {
      if (!(error instanceof AppError) || error.code !== 'not_found') throw error;
      throw invalid(`body.selectedPaths.${index}`, 'must be a path in the snapshot');
    });
  }
  return { ...state, access };
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
    expiresAt: new Date(Date.now() + seconds * 1000),
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
