import { route, type RouteGroup } from '../../platform/http/route.ts';
import { SearchAnswer, SearchQuery, type SearchSource } from './search.schema.ts';
import { search } from './search.service.ts';

export const searchRoutes = ({ searchSources }: { searchSources: readonly SearchSource[] }): RouteGroup => ({
  name: 'Search',
  description: 'Searches the names and descriptions of all kinds of records.',
  routes: [
    route({
      method: 'get',
      path: '/search',
      summary: 'Search devices, scripts, alerts and settings',
      description:
        'Returns only what the caller may read. Best matches come first: whole name, start of the name, start of a word, any part.',
      access: { scopes: ['organization', 'partner', 'system'] },
      cost: 'expensive',
      query: SearchQuery,
      response: SearchAnswer,
      handler: async ({ ctx, query }) => ({ results: await search(ctx, query, searchSources) }),
    }),
  ],
});
