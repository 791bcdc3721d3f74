import { z } from 'zod';

export const DEFAULT_RETENTION_DAYS = 365;

export const RetentionChange = z.strictObject({
  retentionDays: z
    .number()
    .int()
    .min(30)
    .max(3650)
    .describe(
      `For how many days entries are kept. ${DEFAULT_RETENTION_DAYS} unless somebody chose otherwise.`,
    ),
  archiveToS3: z
    .boolean()
    .describe('Entries are copied to the archive of the server first, and removed only when that went well.'),
});
export type RetentionChange = z.infer<typeof RetentionChange>;

export const Retention = RetentionChange.extend({
  lastCleanupAt: z.iso.datetime().nullable().describe('When the last daily cleanup went well.'),
  lastFailure: z
    .strictObject({ at: z.iso.datetime(), reason: z.string() })
    .nullable()
    .describe('Why the last cleanup removed nothing, or not all; null since one went well.'),
  cleanup: z
    .enum(['on', 'off'])
    .describe('`off`: AUDIT_ADMIN_DATABASE_URL is not set on this server, so entries are never removed.'),
  archive: z.enum(['on', 'off']).describe('`off`: this server has no archive to copy entries to.'),
});
export type Retention = z.infer<typeof Retention>;
