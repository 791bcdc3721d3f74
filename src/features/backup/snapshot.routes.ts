import type { Context } from '../../platform/context.ts';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { NoBody } from '../../platform/http/file-answer.ts';
import { pageOf, withoutPage } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { StreamAnswer } from '../../platform/http/stream-answer.ts';
import {
  browseSnapshot,
  compareSnapshots,
  readMachine,
  searchSnapshot,
  SnapshotMachine,
  SnapshotWalks,
} from './browse.service.ts';
import { SnapshotDownloads } from './download.service.ts';
import type { OpenedImages } from './images.ts';
import { ENGINE_ERRORS, type RepositoryReaders } from './repository-readers.ts';
import {
  BackupSnapshot,
  BrowseQuery,
  DiffQuery,
  DownloadQuery,
  ImmutabilityChange,
  LegalHoldChange,
  MachineQuery,
  SearchQuery,
  SnapshotDiff,
  SnapshotFolder,
  SnapshotMatches,
  SnapshotQuery,
} from './snapshot.schema.ts';
import {
  changeLegalHold,
  extendImmutability,
  findSnapshot,
  listSnapshots,
  readSnapshot,
} from './snapshot.service.ts';

export interface ReadingParts {
  backupStore: { readers: RepositoryReaders; images: OpenedImages };
}

const noteOf = (answer: unknown) => (answer instanceof StreamAnswer ? answer.noted : []);

/** The audit entry of a look into a snapshot; the further pages of the same look are covered by it. */
const readAs = (what: string) => ({
  action: 'data.access',
  resource: 'backup_snapshot',
  coversPages: true as const,
  note: async (
    _answer: unknown,
    { ctx, params, query }: { ctx: Context; params: { id: string }; query: object },
  ) => {
    const { id, orgId } = await findSnapshot(ctx, params.id);
    return { orgId, resourceId: id, details: { what, ...withoutPage(query) } };
  },
});

export const readingRoutes = ({ backupStore }: ReadingParts): RouteGroup => {
  const { readers, images } = backupStore;
  const walks = new SnapshotWalks();
  const downloads = new SnapshotDownloads({ readers, images });
  return {
    name: 'Contents of backup snapshots',
    description: 'The files and folders of snapshots whose data is on this server.',
    routes: [
      route({
        method: 'get',
        path: '/backup/snapshots/:id/browse',
        summary: 'List a folder of a backup snapshot',
        description:
          'In the order of the bytes of the names. The first request of a repository takes about a second longer. Snapshots whose data is not on this server are answered with 409. With `disk`, a folder of a volume in an image; `details.code` is FILE_SYSTEM_UNSUPPORTED for a file system other than ext, and FILE_SYSTEM_DAMAGED for a broken one.',
        access: everyScope('backup:read'),
        transaction: false,
        params: IdParams,
        query: BrowseQuery,
        response: SnapshotFolder,
        errors: ENGINE_ERRORS,
        handler: ({ ctx, params, query, signal }) =>
          browseSnapshot(ctx, { ...query, ...params }, { readers, images }, signal),
        audit: readAs('files'),
      }),
      route({
        method: 'get',
        path: '/backup/snapshots/:id/search',
        summary: 'Search a backup snapshot by name',
        description: 'Answers at most 1000 entries, and looks for at most 20 seconds.',
        access: everyScope('backup:read'),
        transaction: false,
        params: IdParams,
        query: SearchQuery,
        response: SnapshotMatches,
        errors: [...ENGINE_ERRORS, 'rate_limited'],
        handler: ({ ctx, params, query, signal }) =>
          searchSnapshot(ctx, { ...query, ...params }, { readers, walks }, signal),
        audit: readAs('names of files'),
      }),
      route({
        method: 'get',
        path: '/backup/snapshots/:id/diff',
        summary: 'Compare a backup snapshot with an earlier one',
        description:
          'Folder by folder: added, removed, of another content, of another type. Changes of times and rights alone are not listed. What it costs follows from how much differs; it looks at most at two million entries, for at most 20 seconds.',
        access: everyScope('backup:read'),
        transaction: false,
        params: IdParams,
        query: DiffQuery,
        response: SnapshotDiff,
        errors: [...ENGINE_ERRORS, 'rate_limited'],
        handler: ({ ctx, params, query, signal }) =>
          compareSnapshots(ctx, { ...query, ...params }, { readers, walks }, signal),
        audit: readAs('differences'),
      }),
      route({
        method: 'get',
        path: '/backup/snapshots/:id/machine',
        summary: 'Read the description of the machine in an image',
        description:
          'As the device wrote it: its disks with their partitions, how it starts, and what it is made of. Of a snapshot of machines of KVM, one of them. 404 for a snapshot that is no image; 409 where its data is not on this server.',
        access: everyScope('backup:read'),
        transaction: false,
        params: IdParams,
        query: MachineQuery,
        response: SnapshotMachine,
        errors: ENGINE_ERRORS,
        handler: ({ ctx, params, query, signal }) =>
          readMachine(ctx, { ...query, ...params }, readers, signal),
        audit: readAs('description of the machine'),
      }),
      route({
        method: 'get',
        path: '/backup/snapshots/:id/download',
        summary: 'Download a file or a folder of a backup snapshot',
        description:
          'A file as it was, of which `Range` asks for a part; a folder as a tar archive, without links, devices and names with a backslash, which a text at its end lists. Three downloads of a person at a time. A client that takes less than 256 KiB in a minute is cut off, and so is an archive of which a part cannot be read. Files of more than about a terabyte, and folders with more than 300,000 entries, are answered with 409 and `details.code` TOO_LARGE.',
        access: everyScope('recovery:execute'),
        params: IdParams,
        query: DownloadQuery,
        response: NoBody,
        media: ['application/octet-stream', 'application/x-tar'],
        errors: [...ENGINE_ERRORS, 'rate_limited', 'range_not_satisfiable'],
        prepare: ({ ctx, params, query, signal, closed }) =>
          downloads.open(ctx, { ...query, ...params }, { signal, closed }),
        handler: ({ prepared }) => prepared,
        audit: {
          action: 'backup.snapshot.download',
          resource: 'backup_snapshot',
          alsoAs: 'data.export',
          note: noteOf,
        },
      }),
    ],
  };
};

export const snapshotRoutes: RouteGroup = {
  name: 'Backup snapshots',
  description: 'What the backups have made.',
  routes: [
    route({
      method: 'get',
      path: '/backup/snapshots',
      summary: 'List backup snapshots, the newest first',
      description: 'Ordered by when the store received them, which no device decides.',
      access: everyScope('backup:read'),
      query: SnapshotQuery,
      response: pageOf(BackupSnapshot),
      handler: ({ ctx, query }) => listSnapshots(ctx, query),
    }),
    route({
      method: 'get',
      path: '/backup/snapshots/:id',
      summary: 'Read a backup snapshot',
      access: everyScope('backup:read'),
      params: IdParams,
      response: BackupSnapshot,
      handler: ({ ctx, params }) => readSnapshot(ctx, params.id),
    }),
    route({
      method: 'post',
      path: '/backup/snapshots/:id/legal-hold',
      summary: 'Set or release the legal hold of a backup snapshot',
      description: 'For as long as a snapshot is held, no retention and no person removes it.',
      access: peopleOfEveryScope('backup:write'),
      params: IdParams,
      body: LegalHoldChange,
      response: BackupSnapshot,
      errors: ['conflict', 'mfa_required'],
      handler: ({ ctx, params, body }) => changeLegalHold(ctx, params.id, body),
      audit: {
        action: 'backup.snapshot.legal-hold',
        resource: 'backup_snapshot',
        note: ({ id, orgId }, { body }) => ({ orgId, resourceId: id, details: body }),
      },
    }),
    route({
      method: 'post',
      path: '/backup/snapshots/:id/immutability',
      summary: 'Make a backup snapshot immutable until a time',
      description: 'The time can be put off and never be brought forward.',
      access: peopleOfEveryScope('backup:write'),
      params: IdParams,
      body: ImmutabilityChange,
      response: BackupSnapshot,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => extendImmutability(ctx, params.id, body),
      audit: {
        action: 'backup.snapshot.immutability',
        resource: 'backup_snapshot',
        note: ({ id, orgId, immutableUntil }, { body }) => ({
          orgId,
          resourceId: id,
          details: { immutableUntil, reason: body.reason ?? null },
        }),
      },
    }),
  ],
};
