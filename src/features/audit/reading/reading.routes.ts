import { IdParams } from '../../../platform/http/fields.ts';
import { route, type AnyRoute } from '../../../platform/http/route.ts';
import {
  ComplianceReport,
  EntryQuery,
  EntrySearch,
  FullEntry,
  LogEntries,
  ReportQuery,
  SecurityReport,
  ShownEntries,
  Stats,
  UserActivityReport,
} from './audit.schema.ts';
import { listEntries, readEntry, showEntries } from './audit-query.ts';
import { auditStats, complianceReport, securityReport, userActivityReport } from './report.service.ts';

const READ = { scopes: ['organization', 'partner', 'system'], permission: 'audit:read' } as const;

/** SPEC 4.10. */
export const readingRoutes: AnyRoute[] = [
  route({
    method: 'get',
    path: '/audit-logs',
    summary: 'List audit entries for people',
    description:
      'Newest first. Covers the caller’s organization; in partner scope, all accessible organizations and the partner itself.',
    access: READ,
    cost: 'expensive',
    query: EntryQuery,
    response: ShownEntries,
    handler: ({ ctx, query }) => showEntries(ctx, query),
  }),
  route({
    method: 'get',
    path: '/audit-logs/logs',
    summary: 'List audit entries for programs',
    access: READ,
    cost: 'expensive',
    query: EntryQuery,
    response: LogEntries,
    handler: ({ ctx, query }) => listEntries(ctx, query),
  }),
  route({
    method: 'get',
    path: '/audit-logs/logs/:id',
    summary: 'Read an audit entry with all of its fields',
    access: READ,
    params: IdParams,
    response: FullEntry,
    handler: ({ ctx, params }) => readEntry(ctx, params.id),
  }),
  route({
    method: 'get',
    path: '/audit-logs/search',
    summary: 'Search audit entries',
    description:
      'Searches action, e-mail address, resource type, resource name and details, case-insensitive.',
    access: READ,
    cost: 'expensive',
    query: EntrySearch,
    response: LogEntries,
    handler: ({ ctx, query }) => listEntries(ctx, query),
  }),
  route({
    method: 'get',
    path: '/audit-logs/reports/user-activity',
    summary: 'User activity report',
    description: 'Counts the newest 5,000 entries of users and API keys.',
    access: READ,
    cost: 'expensive',
    query: ReportQuery,
    response: UserActivityReport,
    handler: ({ ctx, query }) => userActivityReport(ctx, query),
  }),
  route({
    method: 'get',
    path: '/audit-logs/reports/security-events',
    summary: 'Security events report',
    description: 'Counts sign-ins, permission changes and policy changes in the newest 5,000 such entries.',
    access: READ,
    cost: 'expensive',
    query: ReportQuery,
    response: SecurityReport,
    handler: ({ ctx, query }) => securityReport(ctx, query),
  }),
  route({
    method: 'get',
    path: '/audit-logs/reports/compliance',
    summary: 'Compliance report',
    description: 'Counts data reads, changes and exports in the newest 5,000 such entries.',
    access: READ,
    cost: 'expensive',
    query: ReportQuery,
    response: ComplianceReport,
    handler: ({ ctx, query }) => complianceReport(ctx, query),
  }),
  route({
    method: 'get',
    path: '/audit-logs/stats',
    summary: 'Audit statistics by category and person',
    description: 'Counts the newest 5,000 entries.',
    access: READ,
    cost: 'expensive',
    query: ReportQuery,
    response: Stats,
    handler: ({ ctx, query }) => auditStats(ctx, query),
  }),
];
