export { enrollmentPages } from './enrollment.pages.ts';
