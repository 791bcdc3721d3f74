import { z } from 'zod';

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
