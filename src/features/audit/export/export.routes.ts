import { z } from 'zod';
import { Download } from '../../../platform/http/download.ts';
import { route, type AnyRoute } from '../../../platform/http/route.ts';
import { ExportQuery, ExportRequest, FullEntry } from '../reading/audit.schema.ts';
import { exportEntries } from './export.service.ts';

const EXPORT = { scopes: ['organization', 'partner', 'system'], permission: 'audit:export' } as const;

/**
 * Two entries record what was exported and with which filters: one for the route's own action, and one for
 * `data.export`, which the compliance report counts (SPEC 6).
 */
const noteOf = (response: unknown) => {
  const details = response instanceof Download ? response.noted : {};
  return [{ details }, { action: 'data.export', details }];
};

export const exportRoutes: AnyRoute[] = [
  route({
    method: 'post',
    path: '/audit-logs/export',
    summary: 'Export audit entries',
    description:
      'Newest 10,000 matching entries, as JSON or CSV. CSV cells that a spreadsheet could evaluate as a formula are prefixed with an apostrophe.',
    access: EXPORT,
    cost: 'expensive',
    body: ExportRequest,
    response: z.object({ data: z.array(FullEntry) }),
    media: ['application/json', 'text/csv'],
    handler: ({ ctx, body }) => exportEntries(ctx, body.format, { ...body.filters, ...body.dateRange }),
    audit: { action: 'audit_logs.export', resource: 'audit_logs', note: noteOf },
  }),
  route({
    method: 'get',
    path: '/audit-logs/export',
    summary: 'Export audit entries as CSV',
    description: 'Newest 10,000 matching entries.',
    access: EXPORT,
    cost: 'expensive',
    query: ExportQuery,
    response: z.string(),
    media: ['text/csv'],
    handler: ({ ctx, query }) => exportEntries(ctx, 'csv', query),
    audit: { action: 'audit_logs.export', resource: 'audit_logs', note: noteOf },
  }),
];
