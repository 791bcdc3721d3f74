import { createAuditTrail } from '../features/audit/index.ts';
import type { Tx } from '../platform/db/transaction.ts';
import type { AuditNote } from '../platform/http/route.ts';
import type { Logger } from '../platform/logger.ts';

/** Records what the operator did from the command line, in the trail that belongs to no tenant. */
export const recordAsOperator = (
  tx: Tx,
  log: Logger,
  note: AuditNote & { action: string; resourceType: string },
) =>
  // The entry is sealed by a running server, or by the next one that starts.
  createAuditTrail({ wake() {} }).record(tx, {
    ...note,
    actor: { kind: 'system', scope: 'system', orgId: null, partnerId: null },
    state: { client: { ip: null, userAgent: null }, log },
  });
