import path from 'node:path';
import { clock } from '../../../../clock.ts';
import type { CommandOutput, CommandPayload } from '../../../../protocol/index.ts';
import type { BackupParts } from '../../../repository/backup-parts.ts';
import { STOP_MS } from '../../../repository/local-engine.ts';
import { withRepository } from '../../../repository/repository-work.ts';
import { sourceOf } from '../../../repository/repository-source.ts';
import type { DurableContext } from '../../../work/durable-handler.ts';
import { openImage } from './open-image.ts';
import { diskOf, restoreDisk } from './restore-disk.ts';

type Output = CommandOutput<'backup.image-restore'>;

/** Writes one disk of an image to a file or a disk of this machine. Run again, it goes on where it was interrupted. */
export const runImageRestore = (parts: BackupParts) => ({
  stopMs: STOP_MS,
  run: (
    payload: CommandPayload<'backup.image-restore'>,
    context: DurableContext<'backup.image-restore'>,
  ): Promise<Output> =>
    withRepository(parts, { payload, context }, async ({ engine, repository, options }) => {
      const { restoreId, snapshotId, targetPath, overwrite, grow } = payload;
      const { signal } = options;
      const startedAt = clock.monotonic();
      const source = sourceOf(repository, parts.network, signal);
      const restic = { engine, options };
      const image = await openImage({ repository, source, snapshotId, signal, restic });
      const { disk, target, bytes, checks, sha256 } = await restoreDisk({
        image,
        snapshotId,
        disk: diskOf(image, payload.disk),
        target: targetPath,
        mayOverwrite: overwrite === 'always',
        keepsSize: false,
        grow,
        journalFile: path.join(parts.folder, 'images', `${restoreId}.journal`),
        forbidden: parts.dataDir,
        signal,
        onProgress: (phase, done, total) =>
          context.progress({
            phase,
            done,
            total,
            percent: total === 0 ? 100 : Math.floor((1000 * done) / total) / 10,
          }),
      });
      const failed = checks.filter(({ ok }) => !ok);
      return {
        status: failed.length === 0 ? 'completed' : 'partial',
        targetPath: target,
        filesRestored: 1,
        bytesRestored: bytes,
        filesSkipped: 0,
        seconds: (clock.monotonic() - startedAt) / 1000,
        failed: {
          count: failed.length,
          paths: failed.map(({ name, message = '' }) => ({ path: `${disk}: ${name}`, message })),
        },
        sha256,
      };
    }),
});
