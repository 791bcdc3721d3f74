import { cascade } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { deviceServiceRoutes } from './device-service.routes.ts';

export { createServiceStore } from './service-store.ts';

export const feature = defineFeature({
  name: 'device-services',
  routes: () => [deviceServiceRoutes],
  tables: [
    // A complete report removes those that are gone, and lists a thousand at most.
    cascade('device_services', 'devices'),
    cascade('device_service_reports', 'devices'),
  ],
});
