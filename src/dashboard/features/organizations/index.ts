export { organizationPages } from './organizations.pages.ts';
