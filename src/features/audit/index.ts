export { createEntryArchive } from './retention/archive.ts';
export { createAuditTrail } from './recording/audit-trail.ts';
export { auditRoutes } from './audit.routes.ts';
export { NameIndexCompactor } from './name-index/name-index-compactor.ts';
export { AuditPruner } from './retention/audit-pruner.ts';
export { RepeatedReads } from './recording/repeated-reads.ts';
export type { RetentionMeans } from './retention/retention.service.ts';
export { AuditSealer } from './sealing/sealer.ts';
export { SEALED_SIGNING_KEY, SigningKeys } from './storage/signing-keys.ts';
