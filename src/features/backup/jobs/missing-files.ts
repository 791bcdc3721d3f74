import type { Tx } from '../../../platform/db/transaction.ts';
import type { BackupResult } from '../../../protocol/index.ts';

/** A backup that has succeeded, and has not what its sources should have: a disk was not mounted, everything is excluded. */

export interface MissingFiles {
  code: 'BACKUP_EMPTY';
  message: string;
}

const NAMED_MAX = 5;
const NAME_MAX = 300;

/**
 * Why the snapshot lacks files; `undefined`: nothing says that it does. A source that has become empty counts for as long
 * as a snapshot is kept that has files of it.
 */
export async function missingFiles(
  tx: Tx,
  { repositoryId, snapshotName }: { repositoryId: string; snapshotName: string },
  { filesNew, filesChanged, filesUnmodified, emptySources = [] }: BackupResult,
): Promise<MissingFiles | undefined> {
  if (filesNew + filesChanged + filesUnmodified === 0) {
    const where = emptySources.length === 0 ? 'everything was excluded' : `${named(emptySources)} had none`;
    return { code: 'BACKUP_EMPTY', message: `The snapshot has no files: ${where}.` };
  }
  const { rows } = await tx.raw<{ rows: { source: string }[] }>(HAD_FILES, {
    repositoryId,
    snapshotName,
    sources: JSON.stringify(emptySources),
  });
  const emptied = rows.map(({ source }) => source);
  if (emptied.length === 0) return undefined;
  return {
    code: 'BACKUP_EMPTY',
    message: `The snapshot has no files of ${named(emptied)}, and earlier ones have. Is a disk not mounted there?`,
  };
}

/** Of earlier snapshots whose device has not said what was empty, only that of a single source is known. */
const HAD_FILES = `
  select e.source from jsonb_array_elements_text(:sources::jsonb) with ordinality as e (source, n)
  where exists (select from backup_snapshots s
    where s.repository_id = :repositoryId and s.removed_at is null and s.engine_id <> :snapshotName
      and s.paths @> jsonb_build_array(e.source)
      and case when s.empty_sources is null then jsonb_array_length(s.paths) = 1 and s.file_count > 0
        else not s.empty_sources @> jsonb_build_array(e.source) end)
  order by e.n`;

function named(sources: readonly string[]): string {
  const more = sources.length > NAMED_MAX ? ` and ${sources.length - NAMED_MAX} more` : '';
  const first = sources.slice(0, NAMED_MAX).map((source) => source.slice(0, NAME_MAX));
  return first.join(', ') + more;
}
