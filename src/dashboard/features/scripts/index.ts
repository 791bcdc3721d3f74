export { scriptPages } from './scripts.pages.ts';
