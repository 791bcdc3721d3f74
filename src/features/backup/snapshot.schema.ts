import { z } from 'zod';
import { SnapshotPath } from '../../../engine/index.ts';
import { Id, nfcText, text, Timestamp } from '../../../platform/http/fields.ts';
import { pageQuery, Pagination } from '../../../platform/http/pagination.ts';
import { AsOf } from '../snapshots/snapshot.schema.ts';

const Path = SnapshotPath.meta({
  type: 'string',
  description:
    'A path from the root of the snapshot, with slashes, as the snapshot is browsed: C:\\Users is /C/Users. A byte that is not UTF-8 is written as \\x and two hexadecimal digits.',
});

/** Within an image, paths begin at the root of one of its volumes. */
const volume = {
  machine: text(255)
    .optional()
    .describe('Of a snapshot of several machines: the id or the name of the one to look into.'),
  disk: text(80)
    .optional()
    .describe(
      'Of an image: looks into this disk, and not at the file of the image. File systems of ext2, ext3 and ext4 are read.',
    ),
  partition: z.coerce
    .number()
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe('Of the disk, by its number. Left out for a disk without partitions.'),
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
      'Of a volume of an image. False: it was in use when it was saved, so the newest changes can be missing or damaged.',
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
  bytes: z.number().describe('Of files: of those that were changed, as they are now.'),
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
