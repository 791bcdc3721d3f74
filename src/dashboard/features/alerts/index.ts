export { AlertsFrame } from './alerts-frame.tsx';
export { alertPages } from './alerts.pages.ts';
export { NOTIFICATION_STATES, NotificationState, SeverityBadge } from './alert-parts.tsx';
export { NOTIFICATION_REASONS } from './alert-timeline.ts';
