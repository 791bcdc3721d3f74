import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { restore } from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload } from '../../../protocol/index.ts';
import { openNamed } from '../../os/files/open-folder.ts';
import { nameBytes } from '../../os/files/path-bytes.ts';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { progressOf } from '../../repository/reports.ts';
import { withRepository } from '../../repository/repository-work.ts';
import { snapshotNames } from '../../repository/snapshot-names.ts';
import { assertRoom } from '../../repository/room.ts';
import { readSelection } from './restore/selection.ts';

type Files = CommandOutput<'backup.verify'>['files'];

/**
 * Really restores a sample of files, and reports what they contain. Whether that is right is for the server to decide,
 * which knows the content from the repository. The files are removed in any case.
 */
export const verifySample = (parts: BackupParts) => ({
  stopMs: STOP_MS,
  run: (
    payload: CommandPayload<'backup.verify'>,
    context: DurableContext<'backup.verify'>,
  ): Promise<CommandOutput<'backup.verify'>> =>
    withRepository(parts, { payload, context }, async (use) => {
      const { engine, repository, options } = use;
      const { snapshotId, paths: selected, verificationId } = payload;
      const startedAt = clock.monotonic();
      const { progress } = context;
      const folder = await openPrivateFolder(path.join(parts.folder, 'verified', verificationId));
      try {
        const readNames = snapshotNames(use, parts.network, snapshotId);
        const { files, bytes } = await readSelection({ ...use, snapshotId, readNames }, selected);
        await assertRoom(folder, { files, bytes });
        await restore(
          engine,
          repository,
          { snapshotId, target: folder, selected, expected: { files, bytes } },
          { ...options, onProgress: (now) => progress(progressOf(now)) },
        );
        progress({ phase: 'hashing' });
        const found: Files = [];
        for (const each of selected) found.push(await measure(folder, each, options.signal));
        return { files: found, seconds: (clock.monotonic() - startedAt) / 1000 };
      } finally {
        await rm(folder, { recursive: true, force: true, maxRetries: 3 });
      }
    }),
});

/** Without a hash where the path is not there as a file. */
async function measure(folder: string, file: string, signal: AbortSignal): Promise<Files[number]> {
  try {
    const names = file.split('/').filter((name) => name !== '');
    const handle = await openNamed(folder, names.map(nameBytes));
    try {
      const hash = createHash('sha256');
      let sizeBytes = 0;
      for await (const bytes of handle.createReadStream({ signal, autoClose: false })) {
        if (!(bytes instanceof Uint8Array)) continue;
        hash.update(bytes);
        sizeBytes += bytes.length;
      }
      return { path: file, sha256: hash.digest('hex'), sizeBytes };
    } finally {
      await handle.close();
    }
  } catch {
    signal.throwIfAborted();
    return { path: file, sha256: null, sizeBytes: 0 };
  }
}
