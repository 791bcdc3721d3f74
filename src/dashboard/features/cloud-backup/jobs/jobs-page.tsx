import { Group, Select, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery, useRefreshOn, type CloudBackupJob } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import {
  Action,
  Empty,
  formatBytes,
  formatDuration,
  formatWord,
  JobStateBadge,
  Loaded,
  PagedTable,
  When,
} from '../../../ui/index.ts';
import { CloudFrame } from '../parts/cloud-frame.tsx';
import { useCloudConfigs, useConfigName } from '../parts/lists.ts';
import { CloudJobDrawer } from './job-drawer.tsx';
import { countsText, type Live, progressText, restoredText } from './job-texts.ts';

const route = getRouteApi('/signed-in/cloud-backup/jobs');
const STATUSES = ['pending', 'running', 'completed', 'partial', 'failed', 'cancelled'] as const;
const TYPES = ['backup', 'restore'] as const;
const REFRESH_MS = 30_000;

/** Runs of cloud backups, and restores. */
export function CloudJobsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  const configs = useCloudConfigs(orgId);
  const configName = useConfigName(orgId);
  const jobs = useQuery({
    ...apiQuery('GET /c2c/jobs', {
      query: {
        orgId,
        configId: search.config,
        type: search.type,
        status: search.status,
        page: String(search.page ?? 1),
      },
    }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const live = useLiveJobs(orgId === undefined ? {} : { orgId }).filter(
    ({ kind }) => kind === 'cloud_backup',
  );
  const standings = new Map(live.map((job) => [job.id, job]));
  const states = live.map(({ id, state }) => `${id} ${state}`);
  useRefreshOn(states.sort().join(), ['GET /c2c/jobs']);
  const isNarrowed = [search.config, search.type, search.status].some((one) => one !== undefined);
  return (
    <CloudFrame title="Cloud backup jobs" description="They go on when you close this page.">
      <Group gap="sm">
        <Select
          aria-label="Configuration"
          placeholder="Any configuration"
          clearable
          searchable
          w={230}
          data={(configs.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
          value={search.config ?? null}
          onChange={(value) => change({ config: value ?? undefined })}
        />
        <Select
          aria-label="Kind of job"
          placeholder="Backups and restores"
          clearable
          w={190}
          data={TYPES.map((value) => ({ value, label: `${formatWord(value)}s` }))}
          value={search.type ?? null}
          onChange={(value) => change({ type: TYPES.find((type) => type === value) })}
        />
        <Select
          aria-label="State"
          placeholder="Any state"
          clearable
          w={150}
          data={STATUSES.map((value) => ({ value, label: formatWord(value) }))}
          value={search.status ?? null}
          onChange={(value) => change({ status: STATUSES.find((status) => status === value) })}
        />
      </Group>
      <Loaded query={jobs} what="Reading jobs">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title={isNarrowed ? 'No such jobs' : 'Nothing was backed up yet'}
              action={
                isNarrowed && (
                  <Action
                    variant="default"
                    onClick={() => change({ config: undefined, type: undefined, status: undefined })}
                  >
                    Show all jobs
                  </Action>
                )
              }
            >
              {isNarrowed
                ? 'No job matches what you have chosen.'
                : 'Runs of configurations and restores of items are listed here.'}
            </Empty>
          ) : (
            <PagedTable
              label="Cloud backup jobs"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(page) => change({ page })}
              columns={[
                { header: 'Configuration', isName: true, cell: ({ configId }) => configName(configId) },
                { header: 'Kind', width: 90, cell: ({ type }) => formatWord(type) },
                { header: 'State', width: 130, cell: ({ status }) => <JobStateBadge state={status} /> },
                {
                  header: 'What became of it',
                  cell: (job) => <Outline job={job} live={standings.get(job.id)} />,
                },
                {
                  header: 'Started by',
                  width: 100,
                  cell: ({ trigger }) => (trigger === 'manual' ? 'A person' : 'Schedule'),
                },
                { header: 'Created', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
                { header: 'Took', width: 100, cell: took },
                {
                  header: 'Received',
                  align: 'right',
                  width: 90,
                  cell: ({ bytesTransferred }) =>
                    bytesTransferred === 0 ? '–' : formatBytes(bytesTransferred),
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
      <CloudJobDrawer id={search.job} onClose={() => change({ job: undefined, page: search.page })} />
    </CloudFrame>
  );
}

function took({ startedAt, completedAt }: CloudBackupJob): string {
  return startedAt === null || completedAt === null
    ? '–'
    : formatDuration(Date.parse(completedAt) - Date.parse(startedAt));
}

function Outline({ job, live }: { job: CloudBackupJob; live: Live | undefined }) {
  if (job.error !== null) return <Text size="sm">{job.error.message}</Text>;
  if (job.status === 'pending') return 'It waits for its turn.';
  if (job.status === 'running') return progressText(job, live);
  return job.type === 'backup' ? countsText(job) : restoredText(job);
}
