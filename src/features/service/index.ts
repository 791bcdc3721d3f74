import { SERVICE_TAG } from '../../platform/http/docs/service-paths.ts';
import { defineFeature } from '../feature.ts';
import { type DocumentParts, documentRoutes } from './document.routes.ts';
import { type HealthParts, healthRoutes } from './health.routes.ts';

export { Health } from './health.schema.ts';
export { serviceLimits } from './service-limits.ts';

export const feature = defineFeature({
  name: 'service',
  routes: (parts: HealthParts & DocumentParts) => [
    { ...SERVICE_TAG, routes: [...healthRoutes(parts), ...documentRoutes(parts)] },
  ],
});
