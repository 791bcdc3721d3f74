import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { S3Error, S3Store, type S3Options } from '../../../platform/storage/s3.ts';
import { BundleReader, checkpointLine, entryLine, headerLine, keyLine } from '../chain/bundle.ts';
import type { EntryArchive } from './audit-pruner.ts';
import { cutOf, type Portion, RetentionFailure } from './prune-chain.ts';
import { publicPart, type SigningKeys, signingKeyRows } from '../storage/signing-keys.ts';
import { readConsistently, readEntries } from '../storage/stored-chains.ts';

/** As many entries are read at once, each time in a transaction that waits for nobody. */
const AT_ONCE = 1000;

/** Copies entries to S3-compatible storage as a bundle that proves them alone (docs/decisions/audit-archive.md). */
export function createEntryArchive(db: Db, keys: SigningKeys, options: S3Options): EntryArchive {
  const store = new S3Store(options);
  return {
    async store(portion, signal) {
      try {
        await store.put(nameOf(portion), archiveLines(db, keys, portion), signal);
      } catch (error) {
        if (!(error instanceof S3Error)) throw error;
        throw new RetentionFailure(`Nothing more was removed, as the copy failed. ${error.message}`, {
          cause: error,
        });
      }
    },
  };
}

/** The same for the same portion: one that was copied and not yet removed when the server died is copied over. */
const nameOf = ({ chainId, first, last }: Portion) =>
  `audit/${chainId}/${place(first)}-${place(last.seq)}.jsonl`;
const place = (seq: number) => String(seq).padStart(12, '0');

/** The lines of the bundle, checked as they go out; it throws before the last where they would not prove anything. */
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
    headerLine({ chainId, exportedAt: new Date().toISOString(), head: cutOf(portion, last, newest) }),
    ...keys.map(keyLine),
    ...(anchor === undefined ? [] : [checkpointLine(anchor)]),
  ]);
  for (let from = first; from <= last.seq; from += AT_ONCE) {
    const through = Math.min(from + AT_ONCE - 1, last.seq);
    const lines: string[] = [];
    await withSystem(db, 'read audit entries for their archive', async (tx) => {
      await readConsistently(tx);
      await readEntries(tx, chainId, (entry) => void lines.push(entryLine(entry)), { from, through });
    });
    const text = checked(lines);
    if (through === last.seq) {
      const { fault, entries } = reader.end();
      if (fault !== undefined || entries !== last.seq - first + 1) {
        throw new RetentionFailure(`The copy would prove nothing: ${fault?.reason ?? 'entries are missing'}`);
      }
    }
    yield text;
  }
}
