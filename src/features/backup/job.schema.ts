import { z } from 'zod';
import { Id, instantOrDay, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { DatabaseBackupType } from '../../protocol/index.ts';
import { Refusal } from '../commands/index.ts';
import { JOB_STATUSES } from './job.model.ts';

/** A `bigint`, which the driver returns as text. */
const Count = z.preprocess(
  (value) => (typeof value === 'string' ? Number(value) : value),
  z.number().int().nonnegative().nullable(),
);

export const RunBackup = z.strictObject({
  configId: Id.optional().describe(
    'Default: the default configuration of the organization, else its only one.',
  ),
  backupType: DatabaseBackupType.optional().describe(
    'For a database. Default: what its chain needs next, by the configuration.',
  ),
});
export type RunBackup = z.infer<typeof RunBackup>;

export const RunBackups = z.strictObject({
  deviceIds: z
    .array(Id)
    .min(1)
    .max(500)
    .transform((ids) => [...new Set(ids)]),
});
export type RunBackups = z.infer<typeof RunBackups>;

export const DeviceParams = z.object({ deviceId: Id });

/** Names that other products have for the same states. */
const ALIASES: Readonly<Record<string, string>> = { queued: 'pending', canceled: 'cancelled' };

export const JobQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional(),
  configId: Id.optional(),
  status: z
    .string()
    .transform((word) => ALIASES[word] ?? word)
    .pipe(z.enum(JOB_STATUSES))
    .optional()
    .meta({ type: 'string', enum: [...JOB_STATUSES] }),
  date: instantOrDay()
    .optional()
    .describe('Jobs that were created on this day, in UTC; of a time, on the day of it.'),
  from: instantOrDay().optional().describe('Jobs that were created at this time or later.'),
  to: instantOrDay('end')
    .optional()
    .describe('Jobs that were created before or at this time. A day counts as a whole.'),
});
export type JobQuery = z.infer<typeof JobQuery>;

export const WaitingFor = z
  .enum(['device', 'due_time', 'turn'])
  .describe(
    '`device`: it is not connected. `due_time`: `dueAt` has not come. `turn`: the repository is being prepared or pruned, the window of the schedule is closed, or too many backups into the same destination are running.',
  );
export type WaitingFor = z.infer<typeof WaitingFor>;

const NamedPaths = z.object({
  count: z.number().int(),
  paths: z.array(z.object({ path: z.string(), message: z.string() })).describe('The first of them.'),
});

export const BackupJob = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    configId: z.uuid().nullable(),
    repositoryId: z.uuid().nullable(),
    commandId: z.uuid().nullable().describe('The command that the device has been given.'),
    type: z.enum(['scheduled', 'manual']),
    backupType: DatabaseBackupType.nullable().describe(
      'Of a backup of a database, from when it is given to its device.',
    ),
    typeReason: z.string().nullable().describe('Why it has this type.'),
    slot: Timestamp.nullable().describe('The time of the schedule that the job is for.'),
    dueAt: Timestamp.describe('The devices of a slot are spread over some minutes.'),
    status: z.enum(JOB_STATUSES),
    waitingFor: WaitingFor.nullable().describe('Why the job has not begun; null if it has.'),
    expiresAt: Timestamp.describe('A job that has not begun by then fails.'),
    cancelRequestedAt: Timestamp.nullable(),
    progress: z.object({
      phase: z.string().nullable(),
      percent: z.number().nullable(),
      doneBytes: Count,
      totalBytes: Count,
      doneFiles: Count,
      totalFiles: Count,
      rate: Count.describe('Bytes in a second, over the last seconds.'),
      etaSeconds: Count.describe('The time that remains, as the device estimates it.'),
      currentPath: z.string().nullable(),
      at: Timestamp.nullable().describe('When the device last reported.'),
      stalledSince: Timestamp.nullable().describe(
        'Since when the job has not advanced, if it runs and that is longer than 15 minutes.',
      ),
    }),
    snapshotId: z.uuid().nullable(),
    addedBytes: Count.describe('The bytes that the snapshot added to the repository.'),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    unreadable: NamedPaths.extend({}),
    leftOut: NamedPaths.describe(
      'Virtual file systems below the sources, such as /proc, which are never backed up. The messages are their types.',
    ),
    shadowCopies: z
      .object({
        used: z.boolean(),
        problems: z.array(z.object({ volume: z.string(), message: z.string() })),
        isCut: z.boolean().optional().describe('True: there were more such volumes.'),
      })
      .nullable()
      .describe(
        'For files on Windows: whether they were read from shadow copies, and the volumes without one. Files in use there can be missing or torn. An empty volume: all of them.',
      ),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    startedAt: Timestamp.nullable(),
    finishedAt: Timestamp.nullable(),
  })
  .meta({ id: 'BackupJob' });
export type BackupJob = z.infer<typeof BackupJob>;

export const BackupsStarted = z.object({
  jobs: z.array(BackupJob.pick({ id: true, orgId: true, deviceId: true, configId: true })),
  refused: z.array(Refusal).describe('Devices whose backup was not started, and why.'),
});
