import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import type { BackupDestination, BackupRepositoryAccess, CommandSecrets } from '../../../protocol/index.ts';
import { isInBucket, type StoredDetails } from '../configs/details.schema.ts';
import type { BackupRepository } from '../repositories/repository.model.ts';
import { issueCredential, type NewCredential } from '../store/records/credentials.ts';
import { storePath } from './open-repository.ts';
import { repositoryPassword } from './repository-passwords.ts';

/** What a device is given to work in a repository. The secrets are in `values` only. */
export interface DeviceAccess {
  repository: BackupRepositoryAccess;
  values: CommandSecrets;
  credentialId: string | null;
}

/** Where a repository is that is not in the backup store. */
export interface PlaceElsewhere {
  details: StoredDetails;
  secret: string | undefined;
  /** The device makes the repository where there is none. */
  isNew: boolean;
}

interface Wanted extends Pick<NewCredential, 'role' | 'expiresAt'> {
  jobId: string;
  repository: BackupRepository;
  /** Called where the repository is not in the backup store. */
  elsewhere: () => Promise<PlaceElsewhere>;
}

/** `undefined` while the repository is being pruned. */
export async function accessOfDevice(
  tx: Tx,
  { repository, role, jobId, expiresAt, elsewhere }: Wanted,
  sealer: Sealer,
): Promise<DeviceAccess | undefined> {
  const { password, keyHint } = await repositoryPassword(tx, repository, sealer);
  const [passwordRef, destinationRef] = [newId(), newId()];
  const common = { password: { secretRef: passwordRef }, ...omitUndefined({ keyHint }) };
  if (repository.provider === 'server') {
    const credential = await issueCredential(tx, {
      repositoryId: repository.id,
      role,
      jobId,
      expiresAt,
    }).catch((error: unknown) => {
      if (error instanceof AppError && error.code === 'conflict') return undefined;
      throw error;
    });
    if (credential === undefined) return undefined;
    const destination: BackupDestination = {
      type: 'server',
      path: storePath(repository.id),
      user: credential.user,
      secret: { secretRef: destinationRef },
    };
    return {
      repository: { destination, ...common },
      values: { [passwordRef]: password, [destinationRef]: credential.secret },
      credentialId: credential.id,
    };
  }
  const { details, secret, isNew } = await elsewhere();
  return {
    repository: {
      destination: destinationOnDevice({ details }, repository.id, destinationRef),
      ...common,
      isNew,
    },
    values: { [passwordRef]: password, ...(secret === undefined ? {} : { [destinationRef]: secret }) },
    credentialId: null,
  };
}

/** A bucket or a folder, in which each repository has a place of its own. */
export function destinationOnDevice(
  { details }: { details: StoredDetails },
  repositoryId: string,
  secretRef: string,
): BackupDestination {
  if (isInBucket(details)) {
    const { bucket, region, endpoint = `https://s3.${region}.amazonaws.com`, prefix, accessKey } = details;
    return {
      type: 's3',
      endpoint,
      bucket,
      prefix: prefix === undefined ? repositoryId : `${prefix}/${repositoryId}`,
      ...omitUndefined({ region }),
      accessKey,
      secret: { secretRef },
    };
  }
  if (!('path' in details)) throw new Error('the backup store is no destination on a device');
  const separator = details.path.startsWith('/') ? '/' : '\\';
  const isClosed = details.path.endsWith('/') || details.path.endsWith('\\');
  return { type: 'local', path: `${details.path}${isClosed ? '' : separator}${repositoryId}` };
}
