import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery, type BackupRestore } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { Action, Empty, formatTime, JobStateBadge, Loaded, PagedTable, When } from '../../../ui/index.ts';
import { ENGINE_NAMES } from '../parts/database-names.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { placeName } from '../parts/content-text.ts';

const REFRESH_MS = 15_000;

/** Restores of files, disks, databases and machines of hypervisors, the newest first. */
export function RestoreList({
  deviceId,
  page,
  onPage,
  onOpen,
}: {
  deviceId: string | undefined;
  page: number;
  onPage: (page: number) => void;
  onOpen: (id: string) => void;
}) {
  const { orgId } = scopeQuery(useScope());
  const restores = useQuery({
    ...apiQuery('GET /backup/restore', { query: { orgId, deviceId, page: String(page) } }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={restores} what="Reading restores">
      {({ data, pagination }) =>
        data.length === 0 ? (
          <Empty title="Nothing was restored">Open a snapshot to look into it and to restore from it.</Empty>
        ) : (
          <PagedTable
            label="Restores"
            rows={data}
            keyOf={({ id }) => id}
            page={pagination}
            onPage={onPage}
            columns={[
              { header: 'To device', isName: true, cell: (restore) => <DeviceLink id={restore.deviceId} /> },
              { header: 'State', width: 130, cell: ({ status }) => <JobStateBadge state={status} /> },
              { header: 'What', cell: whatText },
              { header: 'Where', cell: ({ targetPath }) => targetPath ?? 'A new folder' },
              { header: 'Cause', cell: ({ error }) => error?.message ?? '–' },
              { header: 'Created', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
              {
                header: 'Details',
                width: 80,
                cell: ({ id }) => (
                  <Action size="compact-xs" variant="subtle" onClick={() => onOpen(id)}>
                    Details
                  </Action>
                ),
              },
            ]}
          />
        )
      }
    </Loaded>
  );
}

function whatText(restore: BackupRestore): string {
  const { database, machine, restoreType, disk, volume, dryRun, selectedPaths } = restore;
  if (machine !== null) return `Machine ${machine.vmName ?? machine.name ?? ''}`.trim();
  if (database !== null) {
    const { engine, pointInTime } = database;
    return `${ENGINE_NAMES[engine]}${pointInTime === null ? '' : ` as of ${formatTime(new Date(pointInTime))}`}`;
  }
  if (restoreType === 'image') return disk === null ? 'A whole disk' : `Disk ${disk}`;
  const paths = selectedPaths === null ? 'Everything' : selectedPaths.join(', ');
  const place = volume === null ? '' : ` of ${placeName(volume.disk, volume.partition)}`;
  return `${paths}${place}${dryRun ? ' (only tried)' : ''}`;
}
