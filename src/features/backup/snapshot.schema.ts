import { z } from 'zod';
import { SnapshotPath } from '../../engine/index.ts';
import { Id, instantOrDay, nfcText, noneBefore, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery, pageQuery, Pagination } from '../../platform/http/pagination.ts';
import { SnapshotDetails } from '../../protocol/index.ts';
import { Provider } from './config.schema.ts';

const BackupType = z.enum(['file', 'system_image', 'database', 'application']);

export const BackupSnapshot = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    configId: z.uuid().nullable(),
    jobId: z.uuid().nullable(),
    copyOf: z.uuid().nullable().describe('For a copy in a vault: the snapshot that it is a copy of.'),
    repositoryId: z.uuid(),
    engineId: z.string().describe('The id of the snapshot in its restic repository.'),
    provider: Provider.describe('Where its data is.'),
    backupType: BackupType,
    createdAt: Timestamp.describe('When the store received it.'),
    takenAt: Timestamp.nullable().describe('When it was made, by the clock of the device.'),
    paths: z.array(z.string()).describe('The sources, as the device writes them.'),
    pathsAreCut: z.boolean().optional().describe('True: there are more than are listed.'),
    details: SnapshotDetails.nullable().describe(
      'Of a snapshot that is more than files, as the device writes it.',
    ),
    sizeBytes: z.number().int().nullable(),
    fileCount: z.number().int().nullable(),
    addedBytes: z.number().int().nullable().describe('The bytes that it added to the repository.'),
    changedFiles: z.number().int().nullable(),
    isPartial: z
      .boolean()
      .describe(
        'Some files could not be read, or the result of the backup was lost, so that it is not known.',
      ),
    legalHold: z.boolean(),
    legalHoldReason: z.string().nullable(),
    isImmutable: z.boolean(),
    immutableUntil: Timestamp.nullable(),
    immutabilityEnforcement: z
      .enum(['application', 'none'])
      .describe(
        '`application`: the server refuses to remove it; stored data cannot be removed by the device. `none`: the device or the account of the bucket can remove the data.',
      ),
    retentionBlockedReason: z
      .enum(['legal_hold', 'in_use', 'immutable'])
      .nullable()
      .describe('Why no retention removes it now. `in_use`: a virtual machine runs from it.'),
    removedAt: Timestamp.nullable().describe(
      'Since when it is no longer in the repository. Until the trash of the store is emptied it can be read with `asOf`.',
    ),
    removedBecause: z.string().nullable(),
  })
  .meta({ id: 'BackupSnapshot' });

export const AsOf = instantOrDay('end')
  .optional()
  .describe(
    'The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.',
  );

export const SnapshotQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional(),
  configId: Id.optional(),
  backupType: BackupType.optional(),
  vaultId: Id.optional().describe('The copies in this vault. Without it, no copy of a vault is listed.'),
  from: instantOrDay().optional().describe('Received at this time or later.'),
  to: instantOrDay('end').optional().describe('Received at this time or earlier.'),
  asOf: AsOf,
}).superRefine(noneBefore('from', 'to'));
export type SnapshotQuery = z.infer<typeof SnapshotQuery>;

export const LegalHoldChange = z
  .strictObject({
    enabled: z.boolean().default(true).describe('False releases it, which needs a second factor.'),
    reason: text(500).optional().describe('Required to set it.'),
  })
  .refine(({ enabled, reason }) => !enabled || reason !== undefined, {
    path: ['reason'],
    message: 'must say why the snapshot is held',
  });
export type LegalHoldChange = z.infer<typeof LegalHoldChange>;

export const IMMUTABLE_DAYS_MAX = 3650;
export const ImmutabilityChange = z
  .strictObject({
    immutableDays: z.number().int().min(1).max(IMMUTABLE_DAYS_MAX).optional().describe('From now on.'),
    extendUntil: instantOrDay('end').optional().describe('The later of both times counts.'),
    reason: text(500).optional().describe('For the audit trail.'),
  })
  .refine(({ immutableDays, extendUntil }) => immutableDays !== undefined || extendUntil !== undefined, {
    path: ['extendUntil'],
    message: 'must be given where immutableDays is not',
  });
export type ImmutabilityChange = z.infer<typeof ImmutabilityChange>;

const Path = SnapshotPath.meta({
  type: 'string',
  description:
    'A path from the root of the snapshot, with slashes, as the snapshot is browsed: C:\\Users is /C/Users. A byte that is not UTF-8 is written as \\x and two hexadecimal digits.',
});

/** Within an image, paths begin at the root of one of its volumes. */
const volume = {
  machine: text(255)
    .optional()
    .describe('For a snapshot of several machines: the id or the name of the one to look into.'),
  disk: text(80)
    .optional()
    .describe(
      'For an image: looks into this disk, and not at the file of the image. File systems of ext2, ext3 and ext4 are read.',
    ),
  partition: z.coerce
    .number()
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe('The number of a partition of the disk. Left out for a disk without partitions.'),
};
type VolumeFields = { machine?: unknown; disk?: unknown; partition?: unknown };
function needDisk({ machine, disk, partition }: VolumeFields, context: z.RefinementCtx): void {
  if (disk !== undefined) return;
  for (const [field, value] of Object.entries({ machine, partition })) {
    if (value !== undefined) context.addIssue({ code: 'custom', path: [field], message: 'needs disk' });
  }
}

export const BrowseQuery = pageQuery({ maxLimit: 1000 })
  .extend({ path: Path.default('/'), asOf: AsOf, ...volume })
  .superRefine(needDisk);
export type BrowseQuery = z.infer<typeof BrowseQuery>;

const entry = {
  name: z
    .string()
    .describe(
      'A byte that is not UTF-8 is written as \\x and two hexadecimal digits, `caf\\xe9.txt`; a backslash that could begin such a sequence as \\x5c.',
    ),
  path: z.string(),
  type: z.enum(['file', 'directory', 'symlink', 'other']),
  sizeBytes: z.number(),
  modifiedAt: Timestamp.nullable(),
};
export const SnapshotEntry = z.object(entry).meta({ id: 'BackupSnapshotEntry' });
export type SnapshotEntry = z.input<typeof SnapshotEntry>;

export const SnapshotFolder = z.object({
  path: z.string(),
  data: z.array(SnapshotEntry),
  pagination: Pagination,
  isSettled: z
    .boolean()
    .optional()
    .describe(
      'For a volume of an image. False: it was in use when it was saved, so the newest changes can be missing or damaged.',
    ),
});

export const SearchQuery = z.object({
  name: nfcText(255, 0)
    .default('')
    .describe('A part of the name, in any case. Without it everything matches.'),
  path: Path.default('/').describe('The folder to search, with all folders in it.'),
  asOf: AsOf,
});
export type SearchQuery = z.infer<typeof SearchQuery>;

export const SnapshotMatches = z.object({
  data: z.array(SnapshotEntry),
  searched: z.number().int().describe('Entries that were compared.'),
  isComplete: z
    .boolean()
    .describe('False: there were more matches or entries than one request looks at. Search in a folder.'),
});

export const MachineQuery = z.object({ asOf: AsOf, machine: volume.machine });
export type MachineQuery = z.infer<typeof MachineQuery>;

export const DownloadQuery = z
  .object({ path: Path.default('/'), asOf: AsOf, ...volume })
  .superRefine(needDisk);
export type DownloadQuery = z.infer<typeof DownloadQuery>;

export const DiffQuery = pageQuery({ maxLimit: 1000 }).extend({
  against: Id.optional().describe(
    'The snapshot to compare with, of the same repository: the earlier state. Without it, the snapshot that the store received before this one.',
  ),
  path: Path.default('/').describe('The folder to compare, with all folders in it.'),
  asOf: AsOf,
});
export type DiffQuery = z.infer<typeof DiffQuery>;

const Side = z
  .object({ type: entry.type, sizeBytes: entry.sizeBytes, modifiedAt: entry.modifiedAt })
  .nullable();
const Total = z.object({
  entries: z.number().int(),
  bytes: z.number().describe('The bytes of the files; of changed ones, as they are now.'),
});

export const SnapshotDifference = z
  .object({
    path: z.string(),
    change: z.enum(['added', 'removed', 'changed', 'type_changed']),
    before: Side.describe('In the snapshot that is compared with.'),
    after: Side,
  })
  .meta({ id: 'BackupSnapshotDifference' });
export type SnapshotDifference = z.input<typeof SnapshotDifference>;

export const SnapshotDiff = z.object({
  against: z.uuid(),
  path: z.string(),
  data: z.array(SnapshotDifference),
  totals: z.object({ added: Total, removed: Total, changed: Total, typeChanged: Total }),
  compared: z
    .number()
    .int()
    .describe('Entries of folders that differ. Folders that are the same are not read.'),
  isComplete: z
    .boolean()
    .describe('False: there was more than one request looks at. The totals are of what was compared.'),
  pagination: Pagination,
});
export type SnapshotDiff = z.input<typeof SnapshotDiff>;
