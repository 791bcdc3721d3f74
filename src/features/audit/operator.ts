/** What commands beside the server need to record what they do; the door of the feature loads all of it. */
export { createAuditTrail } from './recording/audit-trail.ts';
