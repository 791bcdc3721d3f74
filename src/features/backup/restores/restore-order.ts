import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { CommandPayload } from '../../../protocol/index.ts';
import type { BackupRestore } from './restore.model.ts';

/** What a restore asks of its device. */
export type WantedRestore = Pick<
  BackupRestore,
  'id' | 'selectedPaths' | 'image' | 'targetPath' | 'fromPath' | 'overwrite' | 'dryRun'
>;

type SharedOrder = Pick<
  CommandPayload<'backup.restore'>,
  'restoreId' | 'repository' | 'snapshotId' | 'timeoutSeconds'
>;

/** The command of it. */
export function restoreOrder(
  { selectedPaths, image, targetPath, fromPath, overwrite, dryRun }: WantedRestore,
  shared: SharedOrder,
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
    ...(fromPath === null ? {} : { from: fromPath }),
    overwrite,
    dryRun,
  };
  return { type: 'backup.restore' as const, payload };
}
