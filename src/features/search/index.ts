import { defineFeature } from '../feature.ts';
import { searchRoutes } from './search.routes.ts';

export { BETWEEN_TEXTS, haystackOf, type SearchSource } from './search.schema.ts';

export const feature = defineFeature({
  name: 'search',
  routes: (parts: Parameters<typeof searchRoutes>[0]) => [searchRoutes(parts)],
});
