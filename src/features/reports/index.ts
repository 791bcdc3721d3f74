import { defineFeature } from '../feature.ts';
import { reportRoutes } from './report.routes.ts';

export const feature = defineFeature({
  name: 'reports',
  routes: () => [reportRoutes],
});
