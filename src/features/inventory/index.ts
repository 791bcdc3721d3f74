import { bounded, cascade } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { inventoryRoutes } from './inventory.routes.ts';

export { softwareTimeline } from './inventory.queries.ts';

export const feature = defineFeature({
  name: 'inventory',
  routes: (parts: Parameters<typeof inventoryRoutes>[0]) => [inventoryRoutes(parts)],
  tables: [
    cascade('device_inventory', 'devices'),
    cascade('device_software', 'devices'),
    // Each report that adds some keeps the newest thousand of its device.
    cascade('software_changes', 'devices'),
    bounded('software_titles', 'there is one for each name, removed with the last device that has it'),
  ],
});
