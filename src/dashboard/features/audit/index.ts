export { auditPages } from './audit.pages.ts';
