export { createEntryArchive } from './archive.ts';
export { createAuditTrail } from './audit-trail.ts';
export { auditRoutes } from './audit.routes.ts';
export { NameSheets } from './name-sheets.ts';
export { OldEntries } from './old-entries.ts';
export { RepeatedReads } from './repeated-reads.ts';
export type { RetentionMeans } from './retention.service.ts';
export { AuditSealer } from './sealer.ts';
export { SEALED_SIGNING_KEY, SigningKeys } from './signing-keys.ts';
