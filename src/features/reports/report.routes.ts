import { everyScope } from '../../platform/http/authentication.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { MonthReport, MonthReportQuery } from './report.schema.ts';
import { readMonthReport } from './report.service.ts';

export const reportRoutes: RouteGroup = {
  name: 'Reports',
  description: 'A month of an organization in figures, for its provider to hand to the customer.',
  routes: [
    route({
      method: 'get',
      path: '/reports/month',
      summary: 'Report on a month of an organization',
      description:
        'Devices, availability, alerts, backups, software, upgrades, commands, and who changed what. Of a month that has not ended, what there is so far. It is about the devices that belong to the organization now, with their history. Planned maintenance counts as any other time; devices that report over plain HTTP only count as not connected.',
      access: everyScope('devices:read'),
      cost: 'expensive',
      query: MonthReportQuery,
      response: MonthReport,
      handler: ({ ctx, query }) => readMonthReport(ctx, query),
    }),
  ],
};
