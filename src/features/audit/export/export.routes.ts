import { z } from 'zod';
import { Download } from '../../../platform/http/download.ts';
import { route, type AnyRoute } from '../../../platform/http/route.ts';
import { ExportQuery, ExportRequest, FullEntry } from '../reading/audit.schema.ts';
import { exportEntries } from './export.service.ts';

const EXPORT = { scopes: ['organization', 'partner', 'system'], permission: 'audit:export' } as const;

/** What was exported and with which filters. */
const noteOf = (response: unknown) => ({ details: response instanceof Download ? response.noted : {} });
/** The specification names the first action, and the compliance report counts the second (SPEC 4.10 and 6). */
const AUDIT = {
  action: 'audit_logs.export',
  resource: 'audit_logs',
  alsoAs: 'data.export',
  note: noteOf,
} as const;

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
    handler: ({ ctx, body }) => exportEntries(ctx, body, { ...body.filters, ...body.dateRange }),
    audit: AUDIT,
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
    handler: ({ ctx, query: { bom, ...filter } }) => exportEntries(ctx, { format: 'csv', bom }, filter),
    audit: AUDIT,
  }),
];
