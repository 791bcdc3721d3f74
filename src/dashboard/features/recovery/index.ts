export { recoveryPages } from './recovery.pages.ts';
