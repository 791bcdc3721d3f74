export { eventLogPages } from './event-logs.pages.ts';
