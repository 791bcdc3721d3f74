import { Anchor, Group } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { apiQuery, type BackupSnapshot } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import {
  Empty,
  formatBytes,
  formatCount,
  formatTime,
  Loaded,
  PagedTable,
  StateBadge,
  When,
  type Column,
} from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { contentText } from '../parts/content-text.ts';

/** Snapshots, the newest first. With a device, only its own. */
export function SnapshotTable({
  deviceId,
  configId,
  asOf,
  page,
  onPage,
  hidesDevice = false,
}: {
  deviceId: string | undefined;
  configId?: string | undefined;
  /** The state of the backup store that is listed; without it, that of now. */
  asOf?: string | undefined;
  page: number;
  onPage: (page: number) => void;
  hidesDevice?: boolean;
}) {
  const { orgId } = scopeQuery(useScope());
  const snapshots = useQuery({
    ...apiQuery('GET /backup/snapshots', { query: { orgId, deviceId, configId, asOf, page: String(page) } }),
    placeholderData: keepPreviousData,
  });
  const device: Column<BackupSnapshot> = {
    header: 'Device',
    cell: (row) => <DeviceLink id={row.deviceId} />,
  };
  return (
    <Loaded query={snapshots} what="Reading snapshots">
      {({ data, pagination }) =>
        data.length === 0 ? (
          <Empty title="No snapshots">
            {asOf === undefined
              ? 'The first backup that succeeds makes one.'
              : 'There was none at that time.'}
          </Empty>
        ) : (
          <PagedTable
            label="Snapshots"
            rows={data}
            keyOf={({ id }) => id}
            page={pagination}
            onPage={onPage}
            columns={[
              {
                header: 'Received',
                isName: true,
                width: 225,
                cell: ({ id, createdAt }) => (
                  <Anchor
                    inherit
                    renderRoot={(props) => (
                      <Link
                        {...props}
                        to="/backup/snapshots/$snapshotId"
                        params={{ snapshotId: id }}
                        search={{ asOf }}
                      />
                    )}
                  >
                    {formatTime(new Date(createdAt))}
                  </Anchor>
                ),
              },
              { header: 'Age', width: 100, cell: ({ createdAt }) => <When at={createdAt} /> },
              ...(hidesDevice ? [] : [device]),
              { header: 'What', cell: contentText },
              { header: 'Size', align: 'right', width: 90, cell: ({ sizeBytes }) => bytes(sizeBytes) },
              {
                header: 'Files',
                align: 'right',
                width: 90,
                cell: ({ fileCount }) => (fileCount === null ? '–' : formatCount(fileCount)),
              },
              { header: 'Added', align: 'right', width: 90, cell: ({ addedBytes }) => bytes(addedBytes) },
              { header: 'Marks', cell: (snapshot) => <SnapshotMarks snapshot={snapshot} /> },
            ]}
          />
        )
      }
    </Loaded>
  );
}

const bytes = (size: number | null) => (size === null ? '–' : formatBytes(size));

/** What is special about a snapshot. */
export function SnapshotMarks({ snapshot }: { snapshot: BackupSnapshot }) {
  const { isPartial, legalHold, legalHoldReason, isImmutable, immutableUntil, removedAt } = snapshot;
  return (
    <Group gap={4}>
      {isPartial && <StateBadge tone="warning" label="Partial" title="Some files could not be read." />}
      {legalHold && <StateBadge tone="info" label="Legal hold" title={legalHoldReason ?? undefined} />}
      {isImmutable && (
        <StateBadge
          tone="info"
          label="Immutable"
          title={immutableUntil === null ? undefined : `Until ${formatTime(new Date(immutableUntil))}`}
        />
      )}
      {removedAt !== null && <StateBadge tone="neutral" label="Removed" />}
    </Group>
  );
}
