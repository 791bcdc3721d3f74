import { defineFeature } from '../feature.ts';
import { type LiveToolParts, liveTools } from './live-tools.service.ts';
import { systemToolRoutes } from './system-tools.routes.ts';

/** The processes and services of devices as they are now, and what technicians do to them. */
export const feature = defineFeature({
  name: 'system-tools',
  routes: (parts: LiveToolParts) => [systemToolRoutes({ tools: liveTools(parts) })],
});
