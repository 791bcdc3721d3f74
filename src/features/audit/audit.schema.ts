import { z } from 'zod';
import {
  Id,
  instantOrDay,
  JsonColumn,
  nfcText,
  noneBefore,
  text,
  Timestamp,
} from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

/** The category of an action, derived from the prefix of its name (SPEC 2.15). */
const CATEGORIES = [
  'authentication',
  'device',
  'automation',
  'policy',
  'alert',
  'compliance',
  'organization',
  'system',
] as const;

export type Category = (typeof CATEGORIES)[number];

// Longest first, so that the most specific prefix wins.
const PREFIXES = (
  [
    ['user.login', 'authentication'],
    ['user.logout', 'authentication'],
    ['user.permission', 'authentication'],
    ['device.', 'device'],
    ['script.', 'automation'],
    ['policy.', 'policy'],
    ['automation.policy.', 'policy'],
    ['alert.', 'alert'],
    ['data.', 'compliance'],
    ['organization.', 'organization'],
  ] as const
).toSorted(([a], [b]) => b.length - a.length);

export const categoryOf = (action: string): Category =>
  PREFIXES.find(([prefix]) => action.startsWith(prefix))?.[1] ?? 'system';

/** SQL: the category of an action, by the same prefixes. */
export const categorySql = (action: string): string =>
  `(case ${PREFIXES.map(([prefix, category]) => `when starts_with(${action}, '${prefix}') then '${category}'`).join(' ')}
    else 'system' end)`;

const range = { from: instantOrDay('begin').optional(), to: instantOrDay('end').optional() };

interface Range {
  from?: Date | undefined;
  to?: Date | undefined;
}

const inOrder = noneBefore('from', 'to');

const conditions = {
  user: nfcText(255).optional().describe('Part of the e-mail address or name of the user, case-insensitive.'),
  action: text(100).optional().describe('The exact action, such as `site.create`.'),
  resource: nfcText(255)
    .optional()
    .describe('The resource type, or part of the resource name, case-insensitive.'),
  category: z.enum(CATEGORIES).optional(),
  orgId: Id.optional().describe('Only entries of this organization.'),
};

/** The conditions of a list. All that are present must hold. */
export interface EntryFilter extends Range {
  user?: string | undefined;
  action?: string | undefined;
  resource?: string | undefined;
  category?: Category | undefined;
  /** Only the chain of this organization. */
  orgId?: string | undefined;
  userId?: string | undefined;
  /** Text anywhere in an entry. */
  q?: string | undefined;
}

const listFields = {
  ...PageQuery.shape,
  ...conditions,
  ...range,
  skipCount: z
    .enum(['true', 'false'])
    .optional()
    .transform((value) => value === 'true')
    .meta({
      type: 'string',
      description: 'With `true` the entries are not counted and the response has no total.',
    }),
};

export const EntryQuery = z.object(listFields).superRefine(inOrder);
export type EntryQuery = z.infer<typeof EntryQuery>;

export const EntrySearch = z
  .object({
    q: nfcText(255).describe(
      'Part of the action, e-mail address, resource (type, id or name) or details, case-insensitive.',
    ),
    ...listFields,
  })
  .superRefine(inOrder);

export const ReportQuery = z.object({ orgId: conditions.orgId, ...range }).superRefine(inOrder);
export type ReportQuery = z.infer<typeof ReportQuery>;

const BOM =
  'A CSV file begins with a byte order mark, by which spreadsheets know UTF-8; false leaves it out.';

export const ExportQuery = z
  .object({
    userId: z.uuid().optional(),
    ...conditions,
    ...range,
    bom: z.stringbool().default(true).meta({ type: 'boolean', default: true, description: BOM }),
  })
  .superRefine(inOrder);

export const ExportRequest = z.strictObject({
  format: z.enum(['csv', 'json']).default('json'),
  bom: z.boolean().default(true).describe(BOM),
  filters: z.strictObject(conditions).default({}),
  dateRange: z.strictObject(range).superRefine(inOrder).default({}),
});
export type ExportRequest = z.infer<typeof ExportRequest>;

const Pages = z
  .object({
    page: z.number().int(),
    limit: z.number().int(),
    total: z.number().int().optional(),
    totalPages: z.number().int().optional(),
    totalIsMinimum: z
      .literal(true)
      .optional()
      .describe('More entries match than a list counts, so `total` is a lower bound.'),
  })
  .meta({ id: 'AuditPagination' });
export type Pages = z.infer<typeof Pages>;

/** An entry as shown to people. */
const ShownEntry = z
  .object({
    id: z.guid(),
    timestamp: Timestamp,
    action: z.string(),
    resource: z.string(),
    resourceType: z.string(),
    details: z.string().describe('JSON.'),
    ipAddress: z.string().nullable(),
    userAgent: z.string().nullable(),
    sessionId: z.string().nullable(),
    user: z.object({
      name: z.string().nullable(),
      email: z.string().nullable(),
      role: z.string().nullable(),
      department: z.string().nullable(),
    }),
    changes: z.object({ before: z.unknown(), after: z.unknown() }),
  })
  .meta({ id: 'AuditEntry' });
export type ShownEntry = z.infer<typeof ShownEntry>;

export const ShownEntries = z.object({ entries: z.array(ShownEntry), pagination: Pages });

export const LogEntry = z
  .object({
    id: z.guid(),
    timestamp: Timestamp,
    user: z.object({
      id: z.guid(),
      name: z.string().nullable(),
      email: z.string().nullable(),
      role: z.string().nullable(),
    }),
    action: z.string(),
    resource: z.object({ type: z.string(), id: z.guid().nullable(), name: z.string().nullable() }),
    category: z.enum(CATEGORIES),
    result: z.enum(['success', 'failure', 'denied']),
    ipAddress: z.string().nullable(),
    userAgent: z.string().nullable(),
    details: JsonColumn,
  })
  .meta({ id: 'AuditLog' });
export type LogEntry = z.infer<typeof LogEntry>;

export const LogEntries = z.object({ data: z.array(LogEntry), pagination: Pages });

/** All fields of an entry, including its position in the chain. */
export const FullEntry = LogEntry.extend({
  orgId: z.guid().nullable(),
  partnerId: z.guid().nullable(),
  actorType: z.enum(['user', 'api_key', 'agent', 'system']),
  actorId: z.guid(),
  errorMessage: z.string().nullable(),
  seq: z.number().int(),
  checksum: z.string(),
  prevChecksum: z.string().nullable(),
}).meta({ id: 'FullAuditLog' });
export type FullEntry = z.infer<typeof FullEntry>;

const Actions = z.array(z.object({ action: z.string(), count: z.number().int() }));

const Recent = z.array(LogEntry);

const UserActivity = z.object({
  userId: z.guid(),
  userName: z.string().nullable(),
  userEmail: z.string().nullable(),
  actionCount: z.number().int(),
  lastActiveAt: Timestamp,
});

export const UserActivityReport = z.object({
  totalUsers: z.number().int(),
  totalEvents: z.number().int(),
  actionsPerUser: z.array(UserActivity),
  topUsers: z.array(UserActivity),
  recentActivity: Recent,
});

export const SecurityReport = z.object({
  totalEvents: z.number().int(),
  loginAttempts: z.number().int(),
  failedLogins: z.number().int(),
  permissionChanges: z.number().int(),
  byAction: Actions,
  recentEvents: Recent,
});

export const ComplianceReport = z.object({
  totalEvents: z.number().int(),
  dataAccess: z.number().int(),
  dataChanges: z.number().int(),
  exports: z.number().int(),
  byAction: Actions,
  recentEvents: Recent,
});

export const Stats = z.object({
  totalEvents: z.number().int(),
  byCategory: z.array(z.object({ category: z.enum(CATEGORIES), count: z.number().int() })),
  byUser: z.array(
    z.object({ userId: z.guid(), userName: z.string().nullable(), actionCount: z.number().int() }),
  ),
  range: z.object({ from: Timestamp.nullable(), to: Timestamp.nullable() }),
});

export const DEFAULT_RETENTION_DAYS = 365;

export const RetentionChange = z.strictObject({
  retentionDays: z
    .number()
    .int()
    .min(30)
    .max(3650)
    .describe(`How many days entries are kept. Default: ${DEFAULT_RETENTION_DAYS}.`),
  archiveToS3: z
    .boolean()
    .describe(
      'Copy entries to the archive of the server before they are removed; if that fails, they are kept.',
    ),
});
export type RetentionChange = z.infer<typeof RetentionChange>;

export const Retention = RetentionChange.extend({
  lastCleanupAt: z.iso.datetime().nullable().describe('Time of the last successful daily cleanup.'),
  lastFailure: z
    .strictObject({ at: z.iso.datetime(), reason: z.string() })
    .nullable()
    .describe('Why the last cleanup failed; null after a successful one.'),
  cleanup: z
    .enum(['on', 'off'])
    .describe('`off`: this server does not set AUDIT_ADMIN_DATABASE_URL, so entries are never removed.'),
  archive: z.enum(['on', 'off']).describe('`off`: this server has no archive.'),
});
export type Retention = z.infer<typeof Retention>;

export const ChainChoice = z.strictObject({
  orgId: Id.nullable().describe(
    'The organization whose chain is verified; null for that of the caller’s own organization or partner.',
  ),
});
export type ChainChoice = z.infer<typeof ChainChoice>;

export const ChainReport = z
  .object({
    chainId: z.uuid(),
    entries: z.int().describe('The entries that were verified: all, or those up to the fault.'),
    verifiedAt: Timestamp,
    fault: z
      .object({
        seq: z.int().nullable().describe('The position in the chain; null if the whole chain is concerned.'),
        entryId: z.uuid().nullable(),
        reason: z.string(),
      })
      .nullable()
      .describe('The first fault of the chain; null if the chain is intact.'),
  })
  .meta({ id: 'AuditChainReport' });
export type ChainReport = z.infer<typeof ChainReport>;
