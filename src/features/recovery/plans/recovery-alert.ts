import type { Tx } from '../../../platform/db/transaction.ts';
import { raiseAlert, resolveAlert } from '../../alerts/index.ts';

export const RECOVERY_FAILED = 'recovery_failed';

interface FailedPlan {
  id: string;
  name: string;
  executionId: string;
  executionType: string;
  reason: string | null;
}

/**
 * Makes the alert of an organization follow its plans: it stands while the last execution of some plan has failed. An
 * aborted execution says nothing, so the one before it counts.
 * @param hasFailed  whether an execution has just failed; otherwise the alert can only end
 */
export async function followRecoveryAlert(
  tx: Tx,
  orgId: string,
  { hasFailed = false }: { hasFailed?: boolean } = {},
): Promise<void> {
  const { rows } = await tx.raw<{ rows: FailedPlan[] }>(
    `select p.id, p.name, e.id as "executionId", e.execution_type as "executionType", e.halt_reason as reason
    from dr_plans p cross join lateral (
      select x.* from dr_executions x
      where x.org_id = p.org_id and x.plan_id = p.id and x.status in ('completed', 'failed')
      order by x.finished_at desc, x.id desc limit 1) e
    where p.org_id = ? and p.status <> 'archived' and e.status = 'failed' order by e.finished_at desc`,
    [orgId],
  );
  const [newest] = rows;
  if (newest === undefined) {
    await resolveAlert(tx, { orgId, kind: RECOVERY_FAILED, why: 'The plan was executed successfully.' });
    return;
  }
  if (!hasFailed) return;
  await raiseAlert(tx, {
    orgId,
    kind: RECOVERY_FAILED,
    severity: newest.executionType === 'rehearsal' ? 'high' : 'critical',
    title: `Recovery plan ${newest.name}: the ${newest.executionType} has failed`,
    message: rows.map(({ name, reason }) => `${name}: ${reason ?? 'it has failed.'}`).join('\n'),
    details: { planIds: rows.map(({ id }) => id), executionId: newest.executionId },
  });
}
