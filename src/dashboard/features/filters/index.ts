export { filterPages } from './filters.pages.ts';
