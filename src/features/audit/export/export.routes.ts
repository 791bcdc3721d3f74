import { z } from 'zod';
import { Download } from '../../../platform/http/download.ts';
import { route, type AnyRoute } from '../../../platform/http/route.ts';
import { ExportQuery, ExportRequest, FullEntry } from '../reading/audit.schema.ts';
import { exportEntries } from './export.service.ts';

const EXPORT = { scopes: ['organization', 'partner', 'system'], permission: 'audit:export' } as const;

/**
 * What was taken away, and by which filters: under the action of the route, and as one of the exports that the
 * compliance report counts (SPEC 6).
 */
const noteOf = (answer: unknown) => {
  const details = answer instanceof Download ? answer.noted : {};
  return [{ details }, { action: 'data.export', details }];
};

export const exportRoutes: AnyRoute[] = [
  route({
    method: 'post',
    path: '/audit-logs/export',
    summary: 'Export audit entries',
    description:
      'Newest 10,000 matching entries, as JSON or CSV. A cell that a spreadsheet would take for a formula begins with an apostrophe.',
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
