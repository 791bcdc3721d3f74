export { EventLogsPage } from './event-logs-page.tsx';
export { QuestionsPage } from './questions-page.tsx';
