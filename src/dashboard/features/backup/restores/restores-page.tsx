import { Drawer, Group, SegmentedControl } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceSelect } from '../parts/device-names.tsx';
import { VmDrawer } from '../vm-restores/vm-standing.tsx';
import { VmRestoreList } from '../vm-restores/vm-restore-list.tsx';
import { RestoreList } from './restore-list.tsx';
import { RestoreStanding } from './restore-standing.tsx';

const route = getRouteApi('/signed-in/backup/restores');

/** What was brought back to devices: as data, or as virtual machines. */
export function RestoresPage() {
  const { device, restore, machine, view, page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<ReturnType<typeof route.useSearch>>) =>
    void navigate({ search: (previous) => ({ ...previous, ...next }), replace: true });
  const list = { deviceId: device, page, onPage: (next: number) => change({ page: next }) };
  return (
    <BackupFrame
      title="Restores"
      description="A restore begins in a snapshot: open one, and choose what you need."
    >
      <Group>
        <SegmentedControl
          aria-label="What was restored"
          data={[
            { value: 'data', label: 'Files, disks and databases' },
            { value: 'machines', label: 'Virtual machines' },
          ]}
          value={view ?? 'data'}
          onChange={(next) => change({ view: next === 'machines' ? next : undefined, page: undefined })}
        />
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) => change({ device: next, page: undefined })}
        />
      </Group>
      {view === 'machines' ? (
        <VmRestoreList {...list} onOpen={(id) => change({ machine: id })} />
      ) : (
        <RestoreList {...list} onOpen={(id) => change({ restore: id })} />
      )}
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
      <VmDrawer id={machine} onClose={() => change({ machine: undefined })} />
    </BackupFrame>
  );
}
