import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import { createAuditTrail } from '../recording/audit-trail.ts';

/**
 * Records the export of a whole chain in that chain. Nobody is signed in on the command line, so the actor is the system.
 * The entry is sealed by a running server, or by the next one that starts.
 */
export async function recordBundleExport(
  { db, log }: { db: Db; log: Logger },
  chainId: string,
  { entries }: { entries: number },
): Promise<void> {
  const trail = createAuditTrail({ wake() {} });
  await withSystem(db, 'record the export of an audit chain', async (tx) => {
    const organization = await tx('organizations')
      .where({ id: chainId })
      .first<{ partner_id: string } | undefined>('partner_id');
    const partner = await tx('partners').where({ id: chainId }).first<{ id: string } | undefined>('id');
    const partnerId = organization?.partner_id ?? partner?.id;
    // The system chain belongs to no partner, and an unknown id has no chain.
    if (partnerId === undefined) return;
    await trail.record(tx, {
      action: 'data.export',
      resourceType: 'audit_logs',
      details: { format: 'bundle', rows: entries },
      actor: { kind: 'system', orgId: organization === undefined ? null : chainId, partnerId },
      state: { client: { ip: null, userAgent: null }, log },
    });
  });
}
