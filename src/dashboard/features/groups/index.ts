export { groupPages } from './groups.pages.ts';
