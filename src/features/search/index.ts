import { defineFeature } from '../feature.ts';
import { searchRoutes } from './search.routes.ts';

export { BETWEEN_TEXTS } from './rank.ts';

export const feature = defineFeature({
  name: 'search',
  routes: () => [searchRoutes],
});
