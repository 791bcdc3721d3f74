import type { Tx } from '../../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../../platform/http/audit.ts';
import type { Logger } from '../../../../platform/logger.ts';
import type { RecoveryExecution } from '../execution.model.ts';

type Audited = Pick<RecoveryExecution, 'id' | 'orgId' | 'planId' | 'planName' | 'executionType'>;

/** Records what the server does with an execution by itself. After the commit, `audit.committed` must be called. */
export async function recordBySystem(
  tx: Tx,
  { audit, log }: { audit: AuditTrail; log: Logger },
  { action, execution, more }: { action: string; execution: Audited; more: Record<string, unknown> },
): Promise<void> {
  const { id, orgId, planId, planName, executionType } = execution;
  const owner = await tx('organizations').where('id', orgId).first<{ partner_id: string }>('partner_id');
  await audit.record(tx, {
    action,
    resourceType: 'recovery_execution',
    resourceId: id,
    resourceName: planName,
    details: { planId, executionType, ...more },
    actor: { kind: 'system', orgId, partnerId: owner.partner_id },
    state: { client: { ip: null, userAgent: null }, log },
  });
}
