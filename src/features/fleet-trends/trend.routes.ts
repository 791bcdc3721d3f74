import { everyScope } from '../../platform/http/authentication.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { FleetTrends, TrendQuery } from './trend.schema.ts';
import { readTrends } from './trend.service.ts';

export const trendRoutes: RouteGroup = {
  name: 'Fleet trends',
  description: 'What was counted of each organization on each day, kept for 400 days.',
  routes: [
    route({
      method: 'get',
      path: '/fleet/trends',
      summary: 'Read how the fleet has changed from day to day',
      description:
        'The sums of all organizations that the caller may see, or of one. They are counted each hour. Figures of alerts require `alerts:read` and those of backups `backup:read`; without it they are null.',
      access: everyScope('devices:read'),
      query: TrendQuery,
      response: FleetTrends,
      handler: ({ ctx, query }) => readTrends(ctx, query),
    }),
  ],
};
