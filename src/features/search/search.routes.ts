import { route, type RouteGroup } from '../../platform/http/route.ts';
import { SearchAnswer, SearchQuery } from './search.schema.ts';
import { search } from './search.service.ts';

export const searchRoutes: RouteGroup = {
  name: 'Search',
  description: 'One box for everything that has a name.',
  routes: [
    route({
      method: 'get',
      path: '/search',
      summary: 'Search devices, scripts, alerts and settings',
      description:
        'What the caller may read of each, the best matches first: the whole name, its beginning, the beginning of a word, any part.',
      access: { scopes: ['organization', 'partner', 'system'] },
      cost: 'expensive',
      query: SearchQuery,
      response: SearchAnswer,
      handler: async ({ ctx, query }) => ({ results: await search(ctx, query) }),
    }),
  ],
};
