import { Group, SegmentedControl, TextInput, Select, Text } from '@mantine/core';
import { useDebouncedCallback, useHotkeys } from '@mantine/hooks';
import { IconDownload, IconRestore, IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import {
  type BackupSnapshot,
  ApiError,
  apiQuery,
  type BackupSnapshotDifference,
  useList,
} from '../../api/index.ts';
import {
  Action,
  Failure,
  Empty,
  formatBytes,
  formatCount,
  formatTime,
  Loaded,
  PagedTable,
  StateBadge,
} from '../../ui/index.ts';
import { RestoreWizard } from './restore-wizard.tsx';
import { FolderEntries, FoundEntries, Trail, useSnapshotDownload } from './snapshot-entries.tsx';
import { SnapshotFrame, useSnapshotSearch } from './snapshot-frame.tsx';

/** The files of a snapshot: to look at, to compare, to download, and to restore. */
export function SnapshotFiles({ snapshot }: { snapshot: BackupSnapshot }) {
  const { id } = snapshot;
  const { search, go } = useSnapshotSearch(snapshot);
  const { path = '/', q, page = 1, asOf, view = 'files', against } = search;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  /** What the form for restoring begins with, while it is open. */
  const [restored, setRestored] = useState<readonly string[]>();
  const searchField = useRef<HTMLInputElement>(null);
  useHotkeys([['/', () => searchField.current?.focus()]]);
  const searchFor = useDebouncedCallback((text: string) => go({ q: text === '' ? undefined : text }), 400);
  const fetching = useSnapshotDownload(snapshot);
  const toggle = (entry: string) => {
    const next = new Set(chosen);
    if (!next.delete(entry)) next.add(entry);
    setChosen(next);
  };
  const { refusal } = fetching;
  const entries = {
    id,
    asOf,
    choice: { chosen, onToggle: toggle },
    onOpen: (folder: string) => go({ path: folder, q: undefined }),
    onDownload: fetching.begin,
    onRestore: (entry: string) => setRestored([entry]),
    restoreRefusal: refusal,
    refusal: fetching.refusalOfAnother,
  };
  return (
    <SnapshotFrame
      snapshot={snapshot}
      actions={
        <>
          <Action
            variant="default"
            refusal={refusal}
            loading={fetching.isPending}
            icon={IconDownload}
            onClick={() => fetching.begin(path)}
          >
            Download this folder
          </Action>
          <Action refusal={refusal} icon={IconRestore} onClick={() => setRestored([...chosen])}>
            {chosen.size === 0 ? 'Restore …' : `Restore ${chosen.size} chosen …`}
          </Action>
        </>
      }
    >
      <Group justify="space-between">
        <Group gap="sm">
          <SegmentedControl
            aria-label="What is shown"
            size="xs"
            data={[
              { value: 'files', label: 'Files' },
              { value: 'changes', label: 'Changes' },
            ]}
            value={view}
            onChange={(next) =>
              go({ view: next === 'changes' ? 'changes' : undefined, q: undefined, against: undefined })
            }
          />
          <Trail root="Snapshot" path={path} onOpen={(folder) => go({ path: folder, q: undefined })} />
        </Group>
        {view === 'files' && (
          <TextInput
            ref={searchField}
            key={path}
            w={260}
            aria-label="Search names in this folder and below"
            placeholder="Search names from here on"
            leftSection={<IconSearch size={14} aria-hidden />}
            defaultValue={q ?? ''}
            onChange={(event) => searchFor(event.currentTarget.value)}
          />
        )}
      </Group>
      {fetching.error !== null && <Failure error={fetching.error} />}
      {view === 'changes' ? (
        <SnapshotChanges
          snapshot={snapshot}
          against={against}
          onAgainst={(next) => go({ against: next })}
          path={path}
          asOf={asOf}
          page={page}
          onPage={(next) => go({ page: next })}
        />
      ) : q === undefined ? (
        <FolderEntries {...entries} path={path} page={page} onPage={(next) => go({ page: next })} />
      ) : (
        <FoundEntries {...entries} path={path} name={q} />
      )}
      {restored !== undefined && (
        <RestoreWizard
          snapshot={snapshot}
          asOf={asOf}
          chosen={restored}
          onClose={() => setRestored(undefined)}
        />
      )}
    </SnapshotFrame>
  );
}

const LIMIT = '100';
const OFFERED = '100';
const CHANGES = {
  added: { label: 'Added', tone: 'good' },
  removed: { label: 'Removed', tone: 'bad' },
  changed: { label: 'Changed', tone: 'info' },
  type_changed: { label: 'Other type', tone: 'warning' },
} as const;

/** The differences between an earlier snapshot of the same repository and this one, in a folder and all below it. */
function SnapshotChanges({
  snapshot,
  against,
  onAgainst,
  path,
  asOf,
  page,
  onPage,
}: {
  snapshot: BackupSnapshot;
  /** The snapshot that it is compared with; without one, the one before. */
  against: string | undefined;
  onAgainst: (id: string | undefined) => void;
  path: string;
  asOf: string | undefined;
  page: number;
  onPage: (page: number) => void;
}) {
  const { id, deviceId, repositoryId } = snapshot;
  const others = useQuery(apiQuery('GET /backup/snapshots', { query: { deviceId, asOf, limit: OFFERED } }));
  const diff = useList('GET /backup/snapshots/{id}/diff', {
    params: { id },
    query: { against, path, asOf, page: String(page), limit: LIMIT },
  });
  const offered = (others.data?.data ?? []).filter(
    (other) => other.repositoryId === repositoryId && other.id !== id,
  );
  const isFirst = diff.error instanceof ApiError && diff.error.status === 404;
  return (
    <>
      <Select
        w={280}
        label="Compared with the snapshot of"
        placeholder="The one before"
        clearable
        searchable
        data={offered.map((other) => ({ value: other.id, label: formatTime(new Date(other.createdAt)) }))}
        value={against ?? null}
        onChange={(next) => onAgainst(next ?? undefined)}
      />
      {isFirst ? (
        <Empty title="Nothing to compare with">There is no earlier snapshot. Choose a later one.</Empty>
      ) : (
        <Loaded query={diff} what="Comparing">
          {({ data, totals, isComplete, pagination }) => (
            <>
              <Group gap="md">
                {Object.entries({
                  added: totals.added,
                  removed: totals.removed,
                  changed: totals.changed,
                  'of another type': totals.typeChanged,
                }).map(([name, { entries, bytes }]) => (
                  <Text key={name} size="sm">
                    {formatCount(entries)} {name} ({formatBytes(bytes)})
                  </Text>
                ))}
              </Group>
              {!isComplete && (
                <Text size="sm">
                  There is more than one comparison looks at. Open a folder and compare there to see the rest.
                </Text>
              )}
              {data.length === 0 ? (
                <Empty title="Nothing differs">Times and rights alone are not compared.</Empty>
              ) : (
                <PagedTable
                  label="Changes"
                  rows={data}
                  keyOf={(row) => row.path}
                  page={pagination}
                  onPage={onPage}
                  columns={[
                    {
                      header: 'Change',
                      width: 130,
                      cell: ({ change }) => (
                        <StateBadge tone={CHANGES[change].tone} label={CHANGES[change].label} />
                      ),
                    },
                    {
                      header: 'Path',
                      isName: true,
                      cell: (row) => <span style={{ wordBreak: 'break-all' }}>{row.path}</span>,
                    },
                    { header: 'Before', width: 210, cell: ({ before }) => sideText(before) },
                    { header: 'After', width: 210, cell: ({ after }) => sideText(after) },
                  ]}
                />
              )}
            </>
          )}
        </Loaded>
      )}
    </>
  );
}

function sideText(side: BackupSnapshotDifference['before']): string {
  if (side === null) return '–';
  const what = side.type === 'file' ? formatBytes(side.sizeBytes) : side.type;
  return side.modifiedAt === null ? what : `${what}, ${formatTime(new Date(side.modifiedAt))}`;
}
