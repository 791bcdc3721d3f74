import { route, type RouteGroup } from '../../platform/http/route.ts';
import { SearchAnswer, SearchQuery, type SearchSource } from './search.schema.ts';
import { search } from './search.service.ts';

export const searchRoutes = ({ searchSources }: { searchSources: readonly SearchSource[] }): RouteGroup => ({
  name: 'Search',
  description: 'Searches all kinds of records.',
  routes: [
    route({
      method: 'get',
      path: '/search',
      summary: 'Search devices, people, places, scripts, alerts and settings',
      description:
        'Returns only what the caller may read: devices by name, last user, serial number, IP and MAC address and tag, people by name and address, organizations, sites, groups, filters, scripts, alerts, and pages of the settings. Best matches come first: whole name, start of the name, start of a word, any part; then what was active lately.',
      access: { scopes: ['organization', 'partner', 'system'] },
      cost: 'expensive',
      query: SearchQuery,
      response: SearchAnswer,
      handler: async ({ ctx, query }) => ({ results: await search(ctx, query, searchSources) }),
    }),
  ],
});
