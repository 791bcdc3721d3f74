import { lstat, rm } from 'node:fs/promises';
import type { CommandOutput, CommandPayload } from '../../../../protocol/index.ts';
import { hasCode } from '../../../os/files/private-file.ts';
import type { RestoreParts } from './run-restore.ts';
import { ownFolder } from './run-restore.ts';

/** Removes what a restore has brought to its folder of the agent, and what it has left on the way there. */
export const discardRestore =
  (parts: RestoreParts) =>
  async ({
    restoreId,
  }: CommandPayload<'recovery.discard-restore'>): Promise<CommandOutput<'recovery.discard-restore'>> => {
    await parts.staging.remove(restoreId);
    const folder = ownFolder(parts, restoreId);
    const wasThere = await lstat(folder).then(
      () => true,
      (error: unknown) => {
        if (hasCode(error, 'ENOENT')) return false;
        throw error;
      },
    );
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    return { wasThere };
  };
