import { Group } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceSelect } from '../parts/device-names.tsx';
import { Chains } from './chains.tsx';
import { Servers } from './servers.tsx';

const route = getRouteApi('/signed-in/backup/databases');

/** The database servers of devices, and to which instants they can be restored. */
export function DatabasesPage() {
  const { device, page = 1, servers = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<ReturnType<typeof route.useSearch>>) =>
    void navigate({ search: (previous) => ({ ...previous, ...next }), replace: true });
  return (
    <BackupFrame
      title="Databases"
      description="What devices run, and to which point in time it can be restored."
    >
      <Group>
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) => change({ device: next, page: undefined, servers: undefined })}
        />
      </Group>
      <Chains deviceId={device} page={page} onPage={(next) => change({ page: next })} />
      <Servers deviceId={device} page={servers} onPage={(next) => change({ servers: next })} />
    </BackupFrame>
  );
}
