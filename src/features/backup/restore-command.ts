import { clock } from '../../clock.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { BACKUP_TIMEOUT_SECONDS, type CommandPayload, type CommandSecrets } from '../../protocol/index.ts';
import { issueCredential } from '../backup-store/index.ts';
import type { OpenedImages, VolumeQuery } from './images.ts';
import type { RepositoryPassword } from './repository-access.ts';
import {
  mapEngineErrors,
  openSnapshot,
  type RepositoryReaders,
  type SnapshotQuery,
  type SnapshotState,
} from './repository-readers.ts';
import type { BackupRestore } from './restore.model.ts';

// The rules for target paths. The agent checks what exists at the path.

interface Rule {
  isRight(path: string): boolean;
  message: string;
}

const namesOf = (path: string, separator: RegExp) => path.split(separator).filter((name) => name !== '');
const leadsUp = (names: readonly string[]) => names.some((name) => name === '..' || name === '.');

const UNIX: Rule = {
  isRight(path) {
    const names = namesOf(path, /\//);
    return path.startsWith('/') && names.length > 0 && !leadsUp(names) && !/[\r\n]/.test(path);
  },
  message: 'must be an absolute path such as /srv/restored, without . and .., and not the root',
};

const WINDOWS: Rule = {
  isRight(path) {
    const names = namesOf(path.slice(2), /[\\/]/);
    return (
      /^[A-Za-z]:[\\/]/.test(path) &&
      names.length > 0 &&
      !leadsUp(names) &&
      !/[<>:"|?*\r\n]/.test(path.slice(2))
    );
  },
  message: String.raw`must be an absolute path such as C:\Restored, without . and .., and not the root of a drive`,
};

/** The rule that a path breaks on a device of this kind; `undefined` if it breaks none. */
export function targetPathFault(osType: 'windows' | 'macos' | 'linux', path: string): string | undefined {
  const rule = osType === 'windows' ? WINDOWS : UNIX;
  return rule.isRight(path) ? undefined : rule.message;
}

// The access of a device to the repository that it restores from.

/** How long a restore waits for its device. */
export const RESTORE_TTL_SECONDS = 24 * 3600;
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
  const { files, imagePath } = await mapEngineErrors(() =>
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
    await mapEngineErrors(() => find(path)).catch((error: unknown) => {
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
  const seconds = RESTORE_TTL_SECONDS + BACKUP_TIMEOUT_SECONDS + MARGIN_SECONDS;
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

/** The request of a restore to its device. */
export type WantedRestore = Pick<
  BackupRestore,
  'id' | 'selectedPaths' | 'image' | 'targetPath' | 'fromPath' | 'overwrite' | 'dryRun'
> & {
  /** For files out of an image. */
  volume?: BackupRestore['volume'];
};

type SharedOrder = Pick<
  CommandPayload<'backup.restore'>,
  'restoreId' | 'repository' | 'snapshotId' | 'timeoutSeconds'
>;

/** The command of it. */
export function restoreOrder(
  { selectedPaths, image, volume = null, targetPath, fromPath, overwrite, dryRun }: WantedRestore,
  { imagePath, ...shared }: SharedOrder & { imagePath?: string },
) {
  if (image !== null && targetPath !== null) {
    const payload = {
      ...shared,
      ...omitUndefined({ disk: image.disk }),
      targetPath,
      overwrite: overwrite === 'always' ? ('always' as const) : ('never' as const),
      grow: image.grow,
    };
    return { type: 'backup.image-restore' as const, payload };
  }
  const payload = {
    ...shared,
    ...(selectedPaths === null ? {} : { selectedPaths }),
    ...(targetPath === null ? {} : { targetPath }),
    overwrite,
    dryRun,
  };
  if (volume !== null) {
    if (imagePath === undefined) throw new Error('The image of the volume was not looked up.');
    const { disk, partition } = volume;
    const place = { imagePath, disk, ...omitUndefined({ partition }) };
    return { type: 'backup.image-files-restore' as const, payload: { ...payload, volume: place } };
  }
  const from = fromPath === null ? {} : { from: fromPath };
  return { type: 'backup.restore' as const, payload: { ...payload, ...from } };
}
