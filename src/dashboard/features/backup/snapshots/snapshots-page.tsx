import { Group } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceSelect } from '../parts/device-names.tsx';
import { AsOfField, AsOfNotice } from './as-of.tsx';
import { SnapshotTable } from './snapshot-table.tsx';

const route = getRouteApi('/signed-in/backup/snapshots');

/** What can be restored: of all devices, or of one. */
export function SnapshotsPage() {
  const { device, config, asOf, page } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<ReturnType<typeof route.useSearch>>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  return (
    <BackupFrame title="Snapshots" description="Each one is a whole state of what was backed up.">
      <Group>
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) => change({ device: next })}
        />
        <AsOfField asOf={asOf} onChange={(next) => change({ asOf: next })} />
      </Group>
      {asOf !== undefined && <AsOfNotice asOf={asOf} onEnd={() => change({ asOf: undefined })} />}
      <SnapshotTable
        asOf={asOf}
        deviceId={device}
        configId={config}
        page={page ?? 1}
        onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
      />
    </BackupFrame>
  );
}
