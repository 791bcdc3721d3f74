import { getRouteApi } from '@tanstack/react-router';
import { useList, type BackupRestore } from '../../api/index.ts';
import { useLiveWork } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { DetailsDrawer, formatTime, useAddress, WorkList } from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { deviceFacet, DeviceLink } from './selects.tsx';
import { VmDrawer, VmList, useVmWork } from './vm-drawer.tsx';
import { RestoreProgress, restoreWork } from './restore-progress.tsx';
import { ENGINE_NAMES, placeName } from './texts.ts';

const REFRESH_MS = 15_000;
const route = getRouteApi('/signed-in/backup/restores');

const PAGE = {
  frame: BackupFrame,
  title: 'Restores',
  description: 'A restore begins in a snapshot: open one, and choose what you need.',
};
const VIEWS = {
  kind: 'view',
  name: 'view',
  label: 'What was restored',
  first: 'Files, disks and databases',
  options: [{ value: 'machines', label: 'Virtual machines' }],
} as const;

/** The restores to devices: as data, or as virtual machines. */
export function RestoresPage() {
  const { view } = route.useSearch();
  return view === 'machines' ? <VmRestoresPage /> : <DataRestoresPage />;
}

/** All machines that snapshots became, also those that have ended, the newest first. */
function VmRestoresPage() {
  const address = useAddress(route.useSearch());
  const { device, machine, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const live = useVmWork(orgId);
  const restores = useList(
    'GET /backup/restore/vm',
    { query: { orgId, deviceId: device, page: String(page) } },
    REFRESH_MS,
  );
  const empty = {
    title: 'No snapshot became a machine',
    text: 'Open a snapshot of whole disks to start one from it.',
  };
  return (
    <VmList
      {...PAGE}
      query={restores}
      noun="virtual machines"
      label="Virtual machines of snapshots"
      address={address}
      facets={[VIEWS, deviceFacet(address)]}
      empty={empty}
      noneFound={empty}
      live={live}
      onOpen={(id) => address.set({ machine: id })}
    >
      <VmDrawer id={machine} onClose={() => address.set({ machine: undefined })} />
    </VmList>
  );
}

/** Restores of files, disks, databases and machines of hypervisors, the newest first. */
function DataRestoresPage() {
  const address = useAddress(route.useSearch());
  const { device, restore, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const live = useLiveWork('restore', orgId, ['GET /backup/restore']);
  const restores = useList(
    'GET /backup/restore',
    { query: { orgId, deviceId: device, page: String(page) } },
    REFRESH_MS,
  );
  const empty = {
    title: 'Nothing was restored',
    text: 'Open a snapshot to look into it and to restore from it.',
  };
  return (
    <WorkList
      {...PAGE}
      query={restores}
      noun="restores"
      address={address}
      facets={[VIEWS, deviceFacet(address)]}
      empty={empty}
      noneFound={empty}
      workOf={restoreWork}
      live={live}
      subject={[
        { header: 'To device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
        { header: 'What', cell: whatText },
        { header: 'Where', cell: ({ targetPath }) => targetPath ?? 'A new folder' },
      ]}
      onOpen={(id) => address.set({ restore: id })}
    >
      <DetailsDrawer opened={restore} onClose={() => address.set({ restore: undefined })} title="Restore">
        {(id) => <RestoreProgress key={id} id={id} />}
      </DetailsDrawer>
    </WorkList>
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
