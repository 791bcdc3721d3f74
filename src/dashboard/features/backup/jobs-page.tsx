import { getRouteApi } from '@tanstack/react-router';
import { useList } from '../../api/index.ts';
import { useLiveWork } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { endsOfDay, formatBytes, useAddress, WorkList } from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { backupWork, JobDrawer, startedBy } from './job-drawer.tsx';
import { deviceFacet, DeviceLink } from './selects.tsx';

const route = getRouteApi('/signed-in/backup/jobs');
const REFRESH_MS = 30_000;

/** Every backup that was begun, or waits to begin. */
export function JobsPage() {
  const address = useAddress(route.useSearch());
  const { status, device, config, date, job, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const { begin: from, end: to } = endsOfDay(date);
  const jobs = useList(
    'GET /backup/jobs',
    { query: { orgId, status, deviceId: device, configId: config, from, to, page: String(page) } },
    REFRESH_MS,
  );
  const live = useLiveWork('backup', orgId, ['GET /backup/jobs']);
  return (
    <WorkList
      frame={BackupFrame}
      title="Backup jobs"
      description="Progress comes from the devices as they work."
      views="backup-jobs"
      query={jobs}
      noun="jobs"
      label="Backup jobs"
      address={address}
      facets={[
        {
          kind: 'choice',
          name: 'status',
          label: 'State',
          any: 'Any state',
          options: ['pending', 'running', 'completed', 'partial', 'failed', 'cancelled'],
        },
        deviceFacet(address),
        { kind: 'day', name: 'date', label: 'Day on which the job was created' },
        { kind: 'hidden', name: 'config' },
      ]}
      empty={{
        title: 'No backup has been made',
        text: 'A configuration says what is backed up, and when. Jobs of its schedule and those begun by hand are listed here.',
      }}
      workOf={backupWork}
      live={live}
      subject={[{ header: 'Device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> }]}
      columns={[
        { header: 'Started by', width: 100, cell: startedBy },
        {
          header: 'Added',
          align: 'right',
          width: 100,
          cell: ({ addedBytes }) => (addedBytes === null ? '–' : formatBytes(addedBytes)),
        },
      ]}
      onOpen={(id) => address.set({ job: id })}
    >
      <JobDrawer id={job} onClose={() => address.set({ job: undefined })} />
    </WorkList>
  );
}
