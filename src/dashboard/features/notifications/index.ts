export { notificationPages } from './notifications.pages.ts';
export { OwnNotifications } from './own-settings.tsx';
