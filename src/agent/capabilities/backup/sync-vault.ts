import { clock } from '../../../clock.ts';
import { copySnapshots, listSnapshots } from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload } from '../../../protocol/index.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { type VaultSide, withVault } from '../../repository/repository-work.ts';
import { destinationRoom } from '../../repository/snapshot-facts.ts';

/**
 * Copies snapshots into a vault. Those that it has are skipped, so a sync that was interrupted goes on with the snapshot at
 * which it was.
 */
export const syncVault = (parts: BackupParts) => ({
  stopMs: STOP_MS,
  run: (
    payload: CommandPayload<'backup.vault-sync'>,
    context: DurableContext<'backup.vault-sync'>,
  ): Promise<CommandOutput<'backup.vault-sync'>> =>
    withVault(parts, { payload, context }, async ({ engine, source, vault, options }) => {
      const { snapshotIds, uploadKiBps } = payload;
      const startedAt = clock.monotonic();
      const total = snapshotIds.length;
      context.progress({ phase: 'copying', percent: 0, done: 0, total });
      await copySnapshots(engine, { from: source.repository, to: vault.repository }, snapshotIds, {
        ...options,
        proxy: source.proxy ?? vault.proxy,
        uploadKiBps,
        onProgress(done, share) {
          const percent = Math.min(100, Math.floor((1000 * (done + share)) / total) / 10);
          const message = `${done} of ${total} snapshots`;
          context.progress({ phase: 'copying', percent, done, total, message });
        },
      });
      context.progress({ phase: 'finishing', percent: 100, done: total, total });
      const list = ({ repository, proxy }: VaultSide) =>
        listSnapshots(engine, repository, { ...options, proxy });
      const trees = new Map((await list(source)).map(({ id, tree }) => [id, tree]));
      const copies = new Map<string, string>();
      for (const { id, original, tree } of await list(vault)) {
        // A snapshot that only says that it is a copy has another tree.
        if (original !== undefined && trees.get(original) === tree) copies.set(original, id);
      }
      return {
        copies: snapshotIds.flatMap((id) => {
          const copy = copies.get(id);
          return copy === undefined ? [] : [{ source: id, copy }];
        }),
        seconds: (clock.monotonic() - startedAt) / 1000,
        ...(await destinationRoom(vault.repository)),
      };
    }),
});
