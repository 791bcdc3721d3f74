import { Group, Select, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import {
  ApiError,
  apiQuery,
  type BackupSnapshot,
  type BackupSnapshotDifference,
} from '../../../api/index.ts';
import {
  Empty,
  formatBytes,
  formatCount,
  formatTime,
  Loaded,
  PagedTable,
  StateBadge,
} from '../../../ui/index.ts';

const LIMIT = '100';
const OFFERED = '100';
const CHANGES = {
  added: { label: 'Added', tone: 'good' },
  removed: { label: 'Removed', tone: 'bad' },
  changed: { label: 'Changed', tone: 'info' },
  type_changed: { label: 'Other type', tone: 'warning' },
} as const;

/** What differs between an earlier snapshot of the same repository and this one, in a folder and all below it. */
export function SnapshotChanges({
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
  const diff = useQuery({
    ...apiQuery('GET /backup/snapshots/{id}/diff', {
      params: { id },
      query: { against, path, asOf, page: String(page), limit: LIMIT },
    }),
    placeholderData: keepPreviousData,
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
