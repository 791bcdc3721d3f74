export { auditTrail } from './audit-trail.ts';
