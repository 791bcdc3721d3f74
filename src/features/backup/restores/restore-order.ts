import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { CommandPayload } from '../../../protocol/index.ts';
import type { BackupRestore } from './restore.model.ts';

/** What a restore asks of its device. */
export type WantedRestore = Pick<
  BackupRestore,
  'id' | 'selectedPaths' | 'image' | 'targetPath' | 'fromPath' | 'overwrite' | 'dryRun'
> & {
  /** Of files out of an image. */
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
