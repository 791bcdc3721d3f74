import { Group } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceSelect } from '../parts/device-names.tsx';
import { SnapshotTable } from './snapshot-table.tsx';

const route = getRouteApi('/signed-in/backup/snapshots');

/** What can be restored: of all devices, or of one. */
export function SnapshotsPage() {
  const { device, config, page } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <BackupFrame title="Snapshots" description="Each one is a whole state of what was backed up.">
      <Group>
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) =>
            void navigate({
              search: (previous) => ({ ...previous, page: undefined, device: next }),
              replace: true,
            })
          }
        />
      </Group>
      <SnapshotTable
        deviceId={device}
        configId={config}
        page={page ?? 1}
        onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
      />
    </BackupFrame>
  );
}
