import { z } from 'zod';
import type { Db } from '../../platform/db/pool.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { NameIndexCompactor } from './name-index.ts';
import { type SigningKeys, publicPart, signingKeyRows } from './signing-keys.ts';
import { AuditPruner, PruneResult, type EntryArchive } from './audit-pruner.ts';
import { clock } from '../../clock.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { S3Error, S3Store, type S3Options } from '../../platform/s3.ts';
import { BundleReader, checkpointLine, entryLine, headerLine, keyLine } from './bundle.ts';
import { cutOf, type Portion, RetentionFailure } from './prune-chain.ts';
import { readConsistently, readEntries } from './stored-chains.queries.ts';

const DAILY = {
  input: z.object({}),
  attempts: 3,
  backOff: { firstMs: 300_000, longestMs: 3_600_000 },
  inCluster: 1,
  // Both work in short transactions, so what an aborted run has done stays done.
  resumes: true,
};

const PRUNE = defineJob({ ...DAILY, name: 'audit.prune', result: PruneResult });

const COMPACT = defineJob({
  ...DAILY,
  name: 'audit.compact-names',
  result: z.object({ compacted: z.number() }),
});

interface Parts {
  jobs: Jobs;
  db: Db;
  auditKeys: SigningKeys;
  /** The address for the role that may remove entries; without it they stay. */
  auditAdminUrl: string | undefined;
  /** The archive to which entries are copied before they are removed. */
  auditArchive: Parameters<typeof createEntryArchive>[2] | undefined;
  log: Logger;
}

/** Adds the daily pruning of the audit trail and the daily compaction of its name index. */
export function addAuditJobs({ jobs, db, auditKeys: keys, auditAdminUrl, auditArchive, log }: Parts): void {
  const compactor = new NameIndexCompactor({ db, log });
  jobs.handle(COMPACT, async ({ signal }) => {
    const compacted = await compactor.compact(signal);
    signal.throwIfAborted();
    log.info({ compacted }, 'audit.names_compacted');
    return { compacted };
  });
  jobs.schedule(COMPACT, { cron: '37 2 * * *', timeZone: 'UTC' }, {});

  if (auditAdminUrl === undefined) {
    log.warn({ missing: 'AUDIT_ADMIN_DATABASE_URL' }, 'audit.cleanup_off');
    return;
  }
  const archive = auditArchive === undefined ? undefined : createEntryArchive(db, keys, auditArchive);
  const pruner = new AuditPruner({ db, adminUrl: auditAdminUrl, keys, archive, compactor, log });
  jobs.handle(PRUNE, async ({ signal }) => {
    const result = await pruner.prune(signal);
    signal.throwIfAborted();
    log.info(result, 'audit.old_removed');
    return result;
  });
  jobs.schedule(PRUNE, { cron: '7 3 * * *', timeZone: 'UTC' }, {});
}

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
