export { alertPages } from './alerts.pages.ts';
export { AlertSubject, SeverityBadge } from './alert-parts.tsx';
