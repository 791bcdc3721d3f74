/** The audit trail for commands beside the server; the door of the feature would load all of it. */
export { createAuditTrail } from './audit-trail.ts';
