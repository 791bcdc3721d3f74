import type { Tx } from '../../platform/db/transaction.ts';
import { raiseAlert, resolveAlert } from '../alerts/index.ts';

const RUN_FAILED = 'cloud_backup_failed';

interface FailedConfig {
  id: string;
  name: string;
  jobId: string;
  reason: string | null;
}

/**
 * Makes the alert of an organization follow its runs: it stands while the last run of some configuration has failed. A
 * cancelled run says nothing, so the one before it counts.
 * @param hasFailed  whether a run has just failed; otherwise the alert can only end
 */
export async function followFailedRuns(
  tx: Tx,
  orgId: string,
  { hasFailed }: { hasFailed: boolean },
): Promise<void> {
  const { rows } = await tx.raw<{ rows: FailedConfig[] }>(
    `select c.id, c.name, j.id as "jobId", j.error_message as reason
    from c2c_configs c cross join lateral (
      select x.* from c2c_jobs x
      where x.org_id = c.org_id and x.config_id = c.id and x.type = 'backup'
        and x.status in ('completed', 'partial', 'failed')
      order by x.finished_at desc, x.id desc limit 1) j
    where c.org_id = ? and c.removing_since is null and j.status = 'failed' order by j.finished_at desc`,
    [orgId],
  );
  const [newest] = rows;
  if (newest === undefined) {
    const why = 'The last run of each configuration has ended well.';
    await resolveAlert(tx, { orgId, kind: RUN_FAILED, why });
    return;
  }
  if (!hasFailed) return;
  await raiseAlert(tx, {
    orgId,
    kind: RUN_FAILED,
    severity: 'high',
    title: `Cloud backup ${newest.name}: the run has failed`,
    message: rows.map(({ name, reason }) => `${name}: ${reason ?? 'it has failed.'}`).join('\n'),
    details: { configIds: rows.map(({ id }) => id), jobId: newest.jobId },
  });
}
