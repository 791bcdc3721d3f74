import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { checkpointLine, entryLine, headerLine, keyLine } from '../chain/bundle.ts';
import { publicPart, signingKeyRows } from '../storage/signing-keys.ts';
import { readCheckpoints, readConsistently, readEntries, readHead } from '../storage/stored-chains.ts';

/** Writes a chain as a bundle, line by line. Waits if `write` returns a promise. */
export async function exportBundle(
  db: Db,
  chainId: string,
  write: (line: string) => void | Promise<void>,
): Promise<{ entries: number }> {
  return withSystem(db, 'export a chain of the audit trail', async (tx) => {
    await readConsistently(tx);
    const head = (await readHead(tx, chainId)) ?? null;
    await write(headerLine({ chainId, exportedAt: clock.date().toISOString(), head }));
    for (const row of await signingKeyRows(tx)) await write(keyLine(publicPart(row)));
    for (const checkpoint of await readCheckpoints(tx, chainId)) await write(checkpointLine(checkpoint));
    let entries = 0;
    await readEntries(tx, chainId, (entry) => {
      entries++;
      return write(entryLine(entry));
    });
    return { entries };
  });
}
