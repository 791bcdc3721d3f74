import { defineFeature } from '../feature.ts';
import { searchRoutes } from './search.routes.ts';

export { haystackOf, searchOf } from './search.queries.ts';
export { BETWEEN_TEXTS, BETWEEN_WORDS, type SearchSource } from './search.schema.ts';

export const feature = defineFeature({
  name: 'search',
  routes: (parts: Parameters<typeof searchRoutes>[0]) => [searchRoutes(parts)],
});
