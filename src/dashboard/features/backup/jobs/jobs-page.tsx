import { Group, Select, Text, TextInput } from '@mantine/core';
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useEffect } from 'react';
import { apiQuery, type BackupJob } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import {
  Action,
  Empty,
  endsOfDay,
  formatBytes,
  formatDuration,
  formatWord,
  JobStateBadge,
  Loaded,
  PagedTable,
  When,
} from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceLink, DeviceSelect } from '../parts/device-names.tsx';
import { JobDrawer } from './job-drawer.tsx';
import { WAITS } from './waits.ts';

const route = getRouteApi('/signed-in/backup/jobs');
const STATUSES = ['pending', 'running', 'completed', 'partial', 'failed', 'cancelled'] as const;
const REFRESH_MS = 30_000;

/** Every backup that was begun, or waits to begin. */
export function JobsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  const jobs = useQuery({
    ...apiQuery('GET /backup/jobs', {
      query: {
        orgId,
        status: search.status,
        deviceId: search.device,
        configId: search.config,
        from: endsOfDay(search.date).begin,
        to: endsOfDay(search.date).end,
        page: String(search.page ?? 1),
      },
    }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const live = useLiveJobs(orgId === undefined ? {} : { orgId });
  const percents = new Map(live.map((job) => [job.id, job.percent]));
  const states = live.filter(({ kind }) => kind === 'backup').map(({ id, state }) => `${id} ${state}`);
  useReadAgain(states.sort().join());
  const isNarrowed = [search.status, search.device, search.config, search.date].some(
    (one) => one !== undefined,
  );
  return (
    <BackupFrame title="Backup jobs" description="Progress comes from the devices as they work.">
      <Group gap="sm">
        <Select
          aria-label="State"
          placeholder="Any state"
          clearable
          w={150}
          data={STATUSES.map((value) => ({ value, label: formatWord(value) }))}
          value={search.status ?? null}
          onChange={(value) => change({ status: STATUSES.find((status) => status === value) })}
        />
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={search.device}
          onChange={(device) => change({ device })}
        />
        <TextInput
          type="date"
          aria-label="Day on which the job was created"
          value={search.date ?? ''}
          onChange={({ currentTarget: { value } }) => change({ date: value === '' ? undefined : value })}
        />
      </Group>
      <Loaded query={jobs} what="Reading jobs">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title={isNarrowed ? 'No such jobs' : 'No backup has been made'}
              action={
                isNarrowed && (
                  <Action
                    variant="default"
                    onClick={() =>
                      change({ status: undefined, device: undefined, config: undefined, date: undefined })
                    }
                  >
                    Show all jobs
                  </Action>
                )
              }
            >
              {isNarrowed
                ? 'No job matches what you have chosen.'
                : 'A configuration says what is backed up, and when. Jobs of its schedule and those begun by hand are listed here.'}
            </Empty>
          ) : (
            <PagedTable
              label="Backup jobs"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(page) => change({ page })}
              columns={[
                { header: 'Device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
                { header: 'State', width: 130, cell: ({ status }) => <JobStateBadge state={status} /> },
                {
                  header: 'What is going on',
                  cell: (job) => <Outline job={job} live={percents.get(job.id)} />,
                },
                {
                  header: 'Started by',
                  width: 100,
                  cell: ({ type }) => (type === 'manual' ? 'A person' : 'Schedule'),
                },
                { header: 'Created', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
                { header: 'Took', width: 110, cell: took },
                {
                  header: 'Added',
                  align: 'right',
                  width: 100,
                  cell: ({ addedBytes }) => (addedBytes === null ? '–' : formatBytes(addedBytes)),
                },
                {
                  header: 'Details',
                  width: 80,
                  cell: ({ id }) => (
                    <Action
                      size="compact-xs"
                      variant="subtle"
                      onClick={() => change({ job: id, page: search.page })}
                    >
                      Details
                    </Action>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <JobDrawer id={search.job} onClose={() => change({ job: undefined, page: search.page })} />
    </BackupFrame>
  );
}

/** Reads the list again when a job begins or ends. */
function useReadAgain(states: string): void {
  const queries = useQueryClient();
  useEffect(() => {
    if (states !== '') void queries.invalidateQueries({ queryKey: ['GET /backup/jobs'] });
  }, [states, queries]);
}

function took({ startedAt, finishedAt }: BackupJob): string {
  return startedAt === null || finishedAt === null
    ? '–'
    : formatDuration(Date.parse(finishedAt) - Date.parse(startedAt));
}

function Outline({ job, live }: { job: BackupJob; live: number | null | undefined }) {
  const { error, unreadable, progress, status, waitingFor } = job;
  if (error !== null) return <Text size="sm">{error.message}</Text>;
  if (status === 'pending') return waitingFor === null ? 'It waits.' : WAITS[waitingFor];
  if (status === 'running') {
    const percent = live ?? progress.percent;
    return [
      progress.phase === null ? 'Running' : formatWord(progress.phase),
      percent === null ? undefined : `${Math.round(percent)} %`,
    ]
      .filter((part) => part !== undefined)
      .join(', ');
  }
  return unreadable.count > 0 ? `${unreadable.count} files could not be read.` : '–';
}
