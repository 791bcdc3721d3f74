export { createAuditTrail } from './audit-trail.ts';
export { auditRoutes } from './audit.routes.ts';
export { AuditSealer } from './sealer.ts';
export { SEALED_SIGNING_KEY, SigningKeys } from './signing-keys.ts';
