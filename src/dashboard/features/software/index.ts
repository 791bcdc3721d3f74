export { softwarePages } from './software.pages.ts';
