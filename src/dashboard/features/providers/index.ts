export { providerPages } from './providers.pages.ts';
