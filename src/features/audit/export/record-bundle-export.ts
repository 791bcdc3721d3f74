import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import { createAuditTrail } from '../recording/audit-trail.ts';

/**
 * Writes down that an operator has taken a whole chain to a file, in that chain. Nobody is signed in at a command line, so
 * the server itself is named. A server that runs, or the next one that starts, seals the entry.
 */
export async function recordBundleExport(
  { db, log }: { db: Db; log: Logger },
  chainId: string,
  { entries }: { entries: number },
): Promise<void> {
  const trail = createAuditTrail({ wake() {} });
  await withSystem(db, 'note the export of an audit trail', async (tx) => {
    const organization = await tx('organizations')
      .where({ id: chainId })
      .first<{ partner_id: string } | undefined>('partner_id');
    const partner = await tx('partners').where({ id: chainId }).first<{ id: string } | undefined>('id');
    const partnerId = organization?.partner_id ?? partner?.id;
    // The chain of the whole system belongs to nobody, and an id that names nothing has no chain.
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
