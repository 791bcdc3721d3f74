import { retentionOf, storeRetention } from './audit-retention.queries.ts';
import type { Context } from '../../platform/context.ts';

import { invalid, notFound } from '../../platform/errors.ts';
import { type Retention, type RetentionChange } from './audit.schema.ts';

/** The configuration of this server. */
export interface RetentionMeans {
  prunesAudit: boolean;
  archivesAudit: boolean;
}

type NamedRetention = Retention & { name: string };

export async function readRetention(
  ctx: Context,
  orgId: string,
  means: RetentionMeans,
): Promise<NamedRetention> {
  const row = await retentionOf(ctx, orgId);
  if (row === undefined) throw notFound('Organization');
  const { name, retentionDays, archiveToS3, lastCleanupAt, failedAt, failure } = row;
  return {
    name,
    retentionDays,
    archiveToS3,
    lastCleanupAt: lastCleanupAt?.toISOString() ?? null,
    lastFailure:
      failedAt === null || failure === null ? null : { at: failedAt.toISOString(), reason: failure },
    cleanup: means.prunesAudit ? 'on' : 'off',
    archive: means.archivesAudit ? 'on' : 'off',
  };
}

/** A shorter retention takes effect with the next daily cleanup, so a mistake can be corrected before then. */
export async function changeRetention(
  ctx: Context,
  orgId: string,
  change: RetentionChange,
  means: RetentionMeans,
): Promise<NamedRetention> {
  const { name, retentionDays, archiveToS3, ...rest } = await readRetention(ctx, orgId, means);
  if (change.archiveToS3 && !archiveToS3 && !means.archivesAudit) {
    throw invalid(
      'body.archiveToS3',
      'this server has no archive; its operator can configure one with AUDIT_ARCHIVE_BUCKET',
    );
  }
  await storeRetention(ctx.tx, orgId, change);
  ctx.recordChange({ retentionDays, archiveToS3 }, change);
  return { name, ...rest, ...change };
}
