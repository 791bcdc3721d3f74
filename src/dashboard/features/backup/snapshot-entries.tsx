import { Anchor, Checkbox, Group, Text, Breadcrumbs } from '@mantine/core';
import { IconFile, IconFolder, IconLink, IconQuestionMark } from '@tabler/icons-react';
import { useQuery, useMutation } from '@tanstack/react-query';
import {
  apiQuery,
  type BackupSnapshotEntry,
  type Pagination,
  download,
  type BackupSnapshot,
  type Input,
  useList,
} from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Empty,
  formatBytes,
  formatTime,
  Loaded,
  PagedTable,
  type Column,
  saveFile,
  Notice,
} from '../../ui/index.ts';
import { useSnapshotSearch } from './snapshot-frame.tsx';
import type { VolumePlace } from './texts.ts';

const ICONS = { file: IconFile, directory: IconFolder, symlink: IconLink, other: IconQuestionMark };
const LIMIT = '100';

interface EntryProps {
  /** The snapshot. */
  id: string;
  path: string;
  /** The state of the backup store that is shown; without it, that of now. */
  asOf: string | undefined;
  /** The entries selected for a restore. Without it, none can be selected. */
  choice?: { chosen: ReadonlySet<string>; onToggle: (path: string) => void };
  onOpen: (path: string) => void;
  onDownload: (path: string) => void;
  /** Why nothing can be downloaded now. */
  refusal: string | undefined;
  /** Restores this entry alone. Without it, that is not offered. */
  onRestore?: (path: string) => void;
  /** Why nothing can be restored. */
  restoreRefusal?: string | undefined;
}

/** One folder of a snapshot, or of a volume of an image in it, page by page. */
export function FolderEntries({
  page,
  onPage,
  volume = {},
  ...props
}: EntryProps & { page: number; onPage: (page: number) => void; volume?: Partial<VolumePlace> }) {
  const { id, path, asOf } = props;
  const entries = useList('GET /backup/snapshots/{id}/browse', {
    params: { id },
    query: { path, asOf, page: String(page), limit: LIMIT, ...volume },
  });
  return (
    <Loaded query={entries} what="Reading the folder">
      {({ data, pagination, isSettled = true }) => (
        <>
          {!isSettled && <NotSettled />}
          {data.length === 0 ? (
            <Empty title="The folder is empty" />
          ) : (
            <EntryTable {...props} entries={data} page={pagination} onPage={onPage} />
          )}
        </>
      )}
    </Loaded>
  );
}

const NotSettled = () => (
  <Notice tone="warning" title="It was in use when it was saved">
    The newest changes can be missing or damaged.
  </Notice>
);

/** The entries with a name, in a folder and all folders in it. */
export function FoundEntries({ name, ...props }: EntryProps & { name: string }) {
  const { id, path, asOf } = props;
  const found = useQuery(
    apiQuery('GET /backup/snapshots/{id}/search', { params: { id }, query: { name, path, asOf } }),
  );
  return (
    <Loaded query={found} what="Searching">
      {({ data, isComplete }) => (
        <>
          {!isComplete && (
            <Text size="sm">
              There is more than one search looks at. Open a folder and search there to find the rest.
            </Text>
          )}
          {data.length === 0 ? (
            <Empty title="Nothing has such a name">Names are searched from the shown folder on.</Empty>
          ) : (
            <EntryTable {...props} entries={data} showsPath />
          )}
        </>
      )}
    </Loaded>
  );
}

function EntryTable({
  entries,
  page,
  onPage,
  showsPath = false,
  choice,
  onOpen,
  onDownload,
  refusal,
  onRestore,
  restoreRefusal,
}: EntryProps & {
  entries: readonly BackupSnapshotEntry[];
  page?: Pagination;
  onPage?: (page: number) => void;
  showsPath?: boolean;
}) {
  return (
    <PagedTable
      label="Files and folders"
      rows={entries}
      keyOf={({ path }) => path}
      page={page}
      onPage={onPage}
      columns={[
        ...(choice === undefined ? [] : [choiceColumn(choice)]),
        {
          header: 'Name',
          isName: true,
          cell: (entry) => <EntryName entry={entry} showsPath={showsPath} onOpen={onOpen} />,
        },
        {
          header: 'Size',
          align: 'right',
          width: 100,
          cell: ({ type, sizeBytes }) => (type === 'file' ? formatBytes(sizeBytes) : '–'),
        },
        {
          header: 'Changed',
          width: 220,
          cell: ({ modifiedAt }) => (modifiedAt === null ? '–' : formatTime(new Date(modifiedAt))),
        },
        {
          header: 'Actions',
          width: onRestore === undefined ? 110 : 200,
          cell: ({ path, type }) => (
            <Group gap={6} wrap="nowrap">
              {(type === 'file' || type === 'directory') && (
                <Action inRow refusal={refusal} onClick={() => onDownload(path)}>
                  Download
                </Action>
              )}
              {onRestore !== undefined && (
                <Action inRow refusal={restoreRefusal} onClick={() => onRestore(path)}>
                  Restore
                </Action>
              )}
            </Group>
          ),
        },
      ]}
    />
  );
}

const choiceColumn = ({
  chosen,
  onToggle,
}: NonNullable<EntryProps['choice']>): Column<BackupSnapshotEntry> => ({
  header: 'Choose',
  width: 70,
  cell: ({ name, path }) => (
    <Checkbox
      size="xs"
      aria-label={`Choose "${name}" to restore it`}
      checked={chosen.has(path)}
      onChange={() => onToggle(path)}
    />
  ),
});

function EntryName({
  entry: { name, path, type },
  showsPath,
  onOpen,
}: {
  entry: BackupSnapshotEntry;
  showsPath: boolean;
  onOpen: (path: string) => void;
}) {
  const Shown = ICONS[type];
  const text = showsPath ? path : name;
  return (
    <Group gap={6} wrap="nowrap">
      <Shown size={16} aria-label={type} role="img" />
      {type === 'directory' ? (
        <Anchor component="button" type="button" inherit onClick={() => onOpen(path)} ta="left">
          {text}
        </Anchor>
      ) : (
        <span style={{ wordBreak: 'break-all' }}>{text}</span>
      )}
    </Group>
  );
}

/** The folders from the root to the one that is shown. */
export function Trail({
  root,
  path,
  onOpen,
}: {
  /** The name of the root. */
  root: string;
  path: string;
  /** Without a path, the root is opened. */
  onOpen: (path: string | undefined) => void;
}) {
  const names = path.split('/').filter((name) => name !== '');
  return (
    <Breadcrumbs component="nav" aria-label="Folder" separatorMargin={6}>
      {[root, ...names].map((name, depth) => {
        const folder = depth === 0 ? undefined : `/${names.slice(0, depth).join('/')}`;
        return depth === names.length ? (
          <Text key={folder ?? '/'} size="sm" fw={600} aria-current="page">
            {name}
          </Text>
        ) : (
          <Anchor
            key={folder ?? '/'}
            component="button"
            type="button"
            size="sm"
            onClick={() => onOpen(folder)}
          >
            {name}
          </Anchor>
        );
      })}
    </Breadcrumbs>
  );
}

type Query = NonNullable<Input<'GET /backup/snapshots/{id}/download'>['query']>;

/** Downloads of files and folders of a snapshot, one at a time, in the shown state of the backup store. */
export function useSnapshotDownload(snapshot: BackupSnapshot, volume: Partial<VolumePlace> = {}) {
  const { search, removal } = useSnapshotSearch(snapshot);
  const refusal = useRefusal('recovery:execute') ?? removal;
  const { mutate, isPending, error } = useMutation({
    mutationFn: async (path: string) => {
      const query: { [K in keyof Query]: Query[K] | undefined } = {
        path: path === '/' ? undefined : path,
        asOf: search.asOf,
        ...volume,
      };
      const { blob, name } = await download('GET /backup/snapshots/{id}/download', {
        params: { id: snapshot.id },
        query,
      });
      saveFile(name ?? 'snapshot', blob);
    },
  });
  return {
    begin: (path: string) => mutate(path),
    isPending,
    error,
    /** Why this person may download nothing of the snapshot. */
    refusal,
    /** Why another download cannot begin now. */
    refusalOfAnother: refusal ?? (isPending ? 'A download is being prepared.' : undefined),
  };
}
