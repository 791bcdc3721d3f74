export { notificationPages } from './notifications.pages.ts';
export { usePeopleOf } from './recipients.ts';
export { OwnNotifications } from './own-settings.tsx';
