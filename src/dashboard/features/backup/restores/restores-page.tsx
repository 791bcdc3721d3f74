import { Drawer, Group } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery, type BackupRestore } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { Action, Empty, formatTime, JobStateBadge, Loaded, PagedTable, When } from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { ENGINE_NAMES } from '../parts/database-names.ts';
import { DeviceLink, DeviceSelect } from '../parts/device-names.tsx';
import { RestoreStanding } from './restore-standing.tsx';

const route = getRouteApi('/signed-in/backup/restores');
const REFRESH_MS = 15_000;

export function RestoresPage() {
  const { device, restore, page } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const change = (next: {
    device?: string | undefined;
    restore?: string | undefined;
    page?: number | undefined;
  }) => void navigate({ search: (previous) => ({ ...previous, ...next }), replace: true });
  const restores = useQuery({
    ...apiQuery('GET /backup/restore', { query: { orgId, deviceId: device, page: String(page ?? 1) } }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  return (
    <BackupFrame
      title="Restores"
      description="A restore begins in a snapshot: open one, and choose what you need."
    >
      <Group>
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) => change({ device: next, page: undefined })}
        />
      </Group>
      <Loaded query={restores} what="Reading restores">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="Nothing was restored">
              Open a snapshot to look into it and to restore from it.
            </Empty>
          ) : (
            <PagedTable
              label="Restores"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => change({ page: next })}
              columns={[
                { header: 'To device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
                { header: 'State', width: 130, cell: ({ status }) => <JobStateBadge state={status} /> },
                {
                  header: 'What',
                  cell: whatText,
                },
                { header: 'Folder', cell: ({ targetPath }) => targetPath ?? 'A new one' },
                { header: 'Cause', cell: ({ error }) => error?.message ?? '–' },
                { header: 'Made', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
                {
                  header: 'Details',
                  width: 80,
                  cell: ({ id }) => (
                    <Action size="compact-xs" variant="subtle" onClick={() => change({ restore: id })}>
                      Details
                    </Action>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <Drawer
        opened={restore !== undefined}
        onClose={() => change({ restore: undefined })}
        position="right"
        size="lg"
        title="Restore"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {restore !== undefined && <RestoreStanding key={restore} id={restore} />}
      </Drawer>
    </BackupFrame>
  );
}

function whatText({ database, machine, dryRun, selectedPaths }: BackupRestore): string {
  if (machine !== null) return `Machine ${machine.vmName ?? machine.name ?? ''}`.trim();
  if (database !== null) {
    const { engine, pointInTime } = database;
    return `${ENGINE_NAMES[engine]}${pointInTime === null ? '' : ` as of ${formatTime(new Date(pointInTime))}`}`;
  }
  const paths = selectedPaths === null ? 'Everything' : selectedPaths.join(', ');
  return `${paths}${dryRun ? ' (only tried)' : ''}`;
}
