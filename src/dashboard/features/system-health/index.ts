export { systemHealthPages } from './system-health.pages.ts';
