import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { invalid, notFound } from '../../../platform/errors.ts';
import { DEFAULT_RETENTION_DAYS, type Retention, type RetentionChange } from './retention.schema.ts';

/** What this server is configured to do. */
export interface RetentionMeans {
  prunesAudit: boolean;
  archivesAudit: boolean;
}

type NamedRetention = Retention & { name: string };

interface RetentionRow extends RetentionChange {
  name: string;
  lastCleanupAt: Date | null;
  failedAt: Date | null;
  failure: string | null;
}

export async function readRetention(
  ctx: Context,
  orgId: string,
  means: RetentionMeans,
): Promise<NamedRetention> {
  const { rows } = await ctx.tx.raw<{ rows: RetentionRow[] }>(
    `select o.name, coalesce(r.retention_days, ${DEFAULT_RETENTION_DAYS}) as "retentionDays",
      coalesce(r.archive_to_s3, false) as "archiveToS3", r.last_cleanup_at as "lastCleanupAt",
      r.last_failure_at as "failedAt", r.last_failure as failure
    from organizations o left join audit_retention_policies r on r.org_id = o.id
    where o.id = ? and o.deleted_at is null and ${inTenant(ctx.caller, 'o.id')}`,
    [orgId],
  );
  const [row] = rows;
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
  await ctx.tx.raw(
    `insert into audit_retention_policies (org_id, retention_days, archive_to_s3) values (?, ?, ?)
    on conflict (org_id) do update set retention_days = excluded.retention_days,
      archive_to_s3 = excluded.archive_to_s3, updated_at = now()`,
    [orgId, change.retentionDays, change.archiveToS3],
  );
  ctx.recordChange({ retentionDays, archiveToS3 }, change);
  return { name, ...rest, ...change };
}
