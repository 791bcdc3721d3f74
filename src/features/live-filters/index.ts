export { recompileOnDefinitionChanges } from './definition-changes.ts';
export { createFleetStore } from './fleet-store.ts';
