import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { S3Error, S3Store, type S3Options } from '../../../platform/storage/s3.ts';
import { BundleReader, checkpointLine, entryLine, headerLine, keyLine } from '../chain/bundle.ts';
import type { EntryArchive } from './audit-pruner.ts';
import { cutOf, type Portion, RetentionFailure } from './prune-chain.ts';
import { publicPart, type SigningKeys, signingKeyRows } from '../storage/signing-keys.ts';
import { readConsistently, readEntries } from '../storage/stored-chains.ts';

/** Entries read per transaction. The upload happens between transactions, so none of them waits for the network. */
const BATCH_SIZE = 1000;

/** Copies entries to S3-compatible storage, as a bundle that can be verified alone (docs/decisions/audit-archive.md). */
export function createEntryArchive(db: Db, keys: SigningKeys, options: S3Options): EntryArchive {
  const store = new S3Store(options);
  return {
    async store(portion, signal) {
      try {
        await store.put(nameOf(portion), archiveLines(db, keys, portion), signal);
      } catch (error) {
        if (!(error instanceof S3Error)) throw error;
        throw new RetentionFailure(
          `No further entries were removed because the copy to the archive failed. ${error.message}`,
          {
            cause: error,
          },
        );
      }
    },
  };
}

/** Deterministic, so that a portion that was copied but not removed when the server died is overwritten by the next try. */
const nameOf = ({ chainId, first, last }: Portion) =>
  `audit/${chainId}/${padded(first)}-${padded(last.seq)}.jsonl`;
const padded = (seq: number) => String(seq).padStart(12, '0');

/** The lines of the bundle, verified while they are sent. Throws before the last one if the bundle would not verify. */
async function* archiveLines(db: Db, own: SigningKeys, portion: Portion): AsyncGenerator<string> {
  const { chainId, first, last, anchor, newest } = portion;
  const keyRows = await withSystem(db, 'read the keys of the audit trail for its archive', signingKeyRows);
  const keys = keyRows.filter((row) => own.isOurs(row)).map(publicPart);
  const reader = new BundleReader({ keys });
  const checked = (lines: readonly string[]) => {
    for (const line of lines) reader.line(line);
    return `${lines.join('\n')}\n`;
  };
  yield checked([
    headerLine({ chainId, exportedAt: clock.date().toISOString(), head: cutOf(portion, last, newest) }),
    ...keys.map(keyLine),
    ...(anchor === undefined ? [] : [checkpointLine(anchor)]),
  ]);
  for (let from = first; from <= last.seq; from += BATCH_SIZE) {
    const through = Math.min(from + BATCH_SIZE - 1, last.seq);
    const lines: string[] = [];
    await withSystem(db, 'read audit entries for their archive', async (tx) => {
      await readConsistently(tx);
      await readEntries(tx, chainId, (entry) => void lines.push(entryLine(entry)), { from, through });
    });
    const text = checked(lines);
    if (through === last.seq) {
      const { fault, entries } = reader.end();
      if (fault !== undefined || entries !== last.seq - first + 1) {
        throw new RetentionFailure(
          `The archive copy would not verify: ${fault?.reason ?? 'entries are missing'}`,
        );
      }
    }
    yield text;
  }
}
