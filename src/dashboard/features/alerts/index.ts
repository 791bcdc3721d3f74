export { alertPages } from './alerts.pages.ts';
export { AlertSubject, NotificationState, SeverityBadge } from './alert-parts.tsx';
export { NOTIFICATION_REASONS } from './alert-timeline.ts';
