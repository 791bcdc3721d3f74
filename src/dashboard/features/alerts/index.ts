export { AlertSubject, SeverityBadge } from './alert-parts.tsx';
export { alertPages } from './alerts.pages.ts';
