import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { clientLimit } from '../../platform/http/client-address.ts';
import { pageOf, PageQuery } from '../../platform/http/pagination.ts';
import { route, type RouteGroup, type AnyRoute } from '../../platform/http/route.ts';
import { PublicKey } from './chain.ts';
import { type RetentionMeans, changeRetention, readRetention } from './retention.service.ts';
import { publicPart, signingKeyRows } from './signing-keys.ts';
import type { VerifyChain } from './verification.service.ts';
import { VERIFY_ACTION } from './verification.queries.ts';
import { z } from 'zod';
import { Download } from '../../platform/http/file-answer.ts';
import {
  ExportQuery,
  ExportRequest,
  FullEntry,
  ComplianceReport,
  EntryQuery,
  EntrySearch,
  LogEntries,
  ReportQuery,
  SecurityReport,
  ShownEntries,
  Stats,
  UserActivityReport,
  Retention,
  RetentionChange,
  ChainChoice,
  ChainReport,
} from './audit.schema.ts';
import { exportEntries } from './export.service.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { listEntries, readEntry, showEntries } from './audit.queries.ts';
import { auditStats, complianceReport, securityReport, userActivityReport } from './report.service.ts';

/** The exported entries and the filters. */
const noteOf = (response: unknown) => ({ details: response instanceof Download ? response.noted : {} });

const READ = { scopes: ['organization', 'partner', 'system'], permission: 'audit:read' } as const;

const EXPORT = { scopes: ['organization', 'partner', 'system'], permission: 'audit:export' } as const;

/** The specification names the first action, and the compliance report counts the second (SPEC 4.10 and 6). */
const AUDIT = {
  action: 'audit_logs.export',
  resource: 'audit_logs',
  alsoAs: 'data.export',
  note: noteOf,
} as const;

/** SPEC 4.10. */
const readingRoutes: AnyRoute[] = [
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

const exportRoutes: AnyRoute[] = [
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

/** Drops the name, which only the audit entry needs. */
const RetentionAnswer = Retention.strip().meta({ id: 'AuditRetention' });

const retentionRoutes = (means: RetentionMeans): AnyRoute[] => [
  route({
    method: 'get',
    path: '/orgs/organizations/:id/audit-retention',
    summary: 'Read the audit retention policy',
    access: { scopes: ['organization', 'partner', 'system'], permission: 'audit:read' },
    params: IdParams,
    response: RetentionAnswer,
    handler: ({ ctx, params }) => readRetention(ctx, params.id, means),
  }),
  route({
    method: 'put',
    path: '/orgs/organizations/:id/audit-retention',
    summary: 'Change the audit retention policy',
    description:
      'Expired entries are removed once a day, oldest first and without gaps, so that the integrity of the remaining entries can still be proven.',
    access: { scopes: ['partner', 'system'], permission: 'organizations:write' },
    params: IdParams,
    body: RetentionChange,
    response: RetentionAnswer,
    handler: ({ ctx, params, body }) => changeRetention(ctx, params.id, body, means),
    audit: {
      action: 'organization.audit_retention.update',
      resource: 'organization',
      note: ({ name }, { params }) => ({ orgId: params.id, resourceId: params.id, resourceName: name }),
    },
  }),
];

const verifyRoutes = ({ verifyChain }: { verifyChain: VerifyChain }): AnyRoute[] => [
  route({
    method: 'post',
    path: '/audit-logs/verify',
    summary: 'Verify an audit chain',
    description:
      'Compares every entry with its checksum, its predecessor and the signatures, and returns the first fault. Chains of more than 500,000 entries are refused with `CONFLICT`: the command `muster audit verify` verifies them. A server that was tampered with would vouch for itself, so an audit relies on the command or on an exported bundle.',
    access: { scopes: ['organization', 'partner', 'system'], permission: 'audit:read' },
    body: ChainChoice,
    response: ChainReport,
    errors: ['conflict', 'rate_limited'],
    prepare: ({ ctx, body }) => verifyChain(ctx, body),
    handler: ({ prepared }) => prepared,
    audit: {
      action: VERIFY_ACTION,
      resource: 'audit_logs',
      note: ({ orgId, entries, fault }) => ({ orgId, details: { entries, fault } }),
    },
  }),
];

/** The limit for reading the public keys, for one network. */
const KEYS = { points: 120, seconds: 60 };

export const auditKeysLimit = (limits: RateLimits) => clientLimit(limits, 'audit-keys', KEYS);

type AuditKeysLimit = ReturnType<typeof auditKeysLimit>;

export const auditRoutes = (
  parts: RetentionMeans & { verifyChain: VerifyChain; auditKeysLimit: AuditKeysLimit },
): RouteGroup => ({
  name: 'Audit trail',
  description: 'A tamper-evident record of who did what.',
  routes: [
    route({
      method: 'get',
      path: '/audit-keys',
      summary: 'Public keys of the audit trail',
      description:
        'These keys sign the heads of all audit chains. Keep a copy for `muster audit verify --keys`.',
      access: 'public',
      before: parts.auditKeysLimit,
      errors: ['rate_limited'],
      query: PageQuery,
      response: pageOf(PublicKey),
      handler: async ({ ctx, query: { page, limit } }) => {
        const rows = await ctx.withSystem('show the public keys of the audit trail', signingKeyRows);
        // Keys are rotated rarely, so paging in memory is cheap.
        const data = rows.slice((page - 1) * limit, page * limit).map(publicPart);
        return { data, pagination: { page, limit, total: rows.length } };
      },
    }),
    ...readingRoutes,
    ...exportRoutes,
    ...verifyRoutes(parts),
    ...retentionRoutes(parts),
  ],
});
