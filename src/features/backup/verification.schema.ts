import { z } from 'zod';
import { Id, instantOrDay, listOf, noneBefore, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

export const VerificationType = z.enum(['integrity', 'test_restore']);
export const VerificationStatus = z.enum(['pending', 'running', 'passed', 'failed', 'partial']);

/** A file of the sample of a test restore: what the snapshot says of it, and what the device has restored. */
export const SampleFile = z.object({
  path: z.string(),
  sizeBytes: z.number(),
  sha256: z.string(),
  restoredSha256: z.string().nullable().optional().describe('null: it was not restored.'),
});
export type SampleFile = z.infer<typeof SampleFile>;

export const VerificationDetails = z.object({
  part: z
    .object({ part: z.number().int(), of: z.number().int() })
    .optional()
    .describe(
      'For an integrity verification: which part of the data was read. Each one reads the next part.',
    ),
  errors: z.array(z.string()).optional().describe('The first errors that were found.'),
  errorsAreCut: z.boolean().optional().describe('True: there were more errors than are listed.'),
  machines: z
    .object({ checked: z.number().int(), of: z.number().int() })
    .optional()
    .describe('For images of several machines: how many of them the test has looked at.'),
  sample: z.array(SampleFile).optional(),
});
export type VerificationDetails = z.infer<typeof VerificationDetails>;

/** What a verification has found, or why it could not be carried out. */
export const Verdict = z.object({
  status: VerificationStatus.extract(['passed', 'failed', 'partial']),
  snapshotId: z.string().optional(),
  filesVerified: z.number().optional(),
  filesFailed: z.number().optional(),
  sizeBytes: z.string().optional(),
  restoreSeconds: z.number().optional(),
  details: VerificationDetails.optional(),
  errorCode: z.string().optional(),
  errorMessage: z.string().optional(),
});
export type Verdict = z.infer<typeof Verdict>;

export const NewVerification = z.strictObject({
  deviceId: Id,
  verificationType: VerificationType,
  configId: Id.optional().describe('Needed if the device has repositories of several configurations.'),
  snapshotId: Id.optional().describe('For a test restore: the snapshot; by default the newest one.'),
});
export type NewVerification = z.infer<typeof NewVerification>;

export const VerificationQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional(),
  verificationType: VerificationType.optional(),
  status: listOf(VerificationStatus),
  from: instantOrDay('begin').optional().describe('Begun at or after: an instant, or a day (UTC).'),
  to: instantOrDay('end').optional().describe('Begun at or before: an instant, or a day (UTC).'),
}).superRefine(noneBefore('from', 'to'));
export type VerificationQuery = z.infer<typeof VerificationQuery>;

export const BackupVerification = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    configId: z.uuid().nullable(),
    snapshotId: z.uuid().nullable(),
    verificationType: VerificationType,
    status: VerificationStatus.describe(
      '`failed` with an `errorCode`: it could not be carried out. Without: errors were found.',
    ),
    filesVerified: z.number().int(),
    filesFailed: z.number().int(),
    sizeBytes: z.number().describe('The size of the restored files.'),
    restoreTimeSeconds: z.number().nullable(),
    details: VerificationDetails,
    errorCode: z.string().nullable(),
    errorMessage: z.string().nullable(),
    createdBy: z.uuid().nullable().describe('null: by the server itself.'),
    createdAt: Timestamp,
    startedAt: Timestamp.nullable(),
    finishedAt: Timestamp.nullable(),
  })
  .meta({ id: 'BackupVerification' });
