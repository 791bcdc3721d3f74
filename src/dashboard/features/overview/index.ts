export { overviewPages } from './overview.pages.ts';
