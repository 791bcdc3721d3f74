export { createFleetStore } from './fleet-store.ts';
