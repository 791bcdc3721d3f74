import { Drawer, Group, Progress, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, useApiChange, useRefreshOn, type CloudBackupJobDetails } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  ConfirmAction,
  formatBytes,
  formatDuration,
  formatTime,
  JobStateBadge,
  Loaded,
} from '../../../ui/index.ts';
import { Cause, FactTable } from '../../backup/index.ts';
import { useConfigName, useConnectionName } from '../parts/lists.ts';
import { progressText } from './job-texts.ts';
import { RestoredItems, UserOutcomes } from './outcomes.tsx';

const REFRESH_MS = 5000;
const READS = ['GET /c2c/jobs/{id}', 'GET /c2c/jobs', 'GET /c2c/configs'] as const;

/** One job: how far it is, and what became of each user or item. */
export function CloudJobDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  return (
    <Drawer
      opened={id !== undefined}
      onClose={onClose}
      position="right"
      size="xl"
      title="Cloud backup job"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {id !== undefined && <JobDetails key={id} id={id} />}
    </Drawer>
  );
}

const isOpen = ({ status }: Pick<CloudBackupJobDetails, 'status'>) =>
  status === 'pending' || status === 'running';

function JobDetails({ id }: { id: string }) {
  const refusal = useRefusal('backup:execute');
  const query = useQuery({
    ...apiQuery('GET /c2c/jobs/{id}', { params: { id } }),
    refetchInterval: ({ state }) => (state.data !== undefined && isOpen(state.data) ? REFRESH_MS : false),
  });
  const [live] = useLiveJobs({ jobId: id });
  useRefreshOn(live?.state ?? '', READS);
  const cancel = useApiChange('POST /c2c/jobs/{id}/cancel', { refreshes: READS });
  const configName = useConfigName(query.data?.orgId);
  return (
    <Loaded query={query} what="Reading the job">
      {(job) => {
        const isRestore = job.type === 'restore';
        const percent = (live?.percent ?? 0) > 0 ? (live?.percent ?? 100) : 100;
        const asked = job.cancelRequestedAt === null ? undefined : 'It was asked to stop already.';
        return (
          <Stack gap="sm">
            <Group justify="space-between">
              <Group gap="xs">
                <Title order={2} size="h4">
                  {isRestore ? 'Restore from ' : 'Backup of '}
                  {configName(job.configId)}
                </Title>
                <JobStateBadge state={job.status} />
              </Group>
              {isOpen(job) && (
                <ConfirmAction
                  variant="default"
                  refusal={refusal ?? asked}
                  title={isRestore ? 'Stop this restore' : 'Stop this backup'}
                  question={
                    isRestore
                      ? 'Items that were restored so far stay where they are.'
                      : 'What was backed up so far stays. The next run goes on from there.'
                  }
                  confirm={isRestore ? 'Stop the restore' : 'Stop the backup'}
                  run={() => cancel.mutateAsync({ params: { id } })}
                >
                  Cancel
                </ConfirmAction>
              )}
            </Group>
            {job.status === 'pending' && <Text size="sm">It waits for its turn.</Text>}
            {job.status === 'running' && (
              <Stack gap={4}>
                <Progress
                  // Before its first part is done, a moving bar says that work goes on.
                  value={percent}
                  striped={percent === 100}
                  animated={percent === 100}
                  aria-label={isRestore ? 'Progress of the restore' : 'Progress of the backup'}
                />
                <Text size="sm">{progressText(job, live)}</Text>
                {asked !== undefined && <Text size="sm">{asked} It ends with its next step.</Text>}
              </Stack>
            )}
            <Cause error={job.error} />
            {isRestore ? (
              <RestoredItems items={job.items} />
            ) : (
              <UserOutcomes outcomes={job.outcomes} total={job.outcomesTotal} />
            )}
            <FactTable
              label="About the job"
              facts={[
                ['Started by', job.trigger === 'manual' ? 'A person' : 'Its schedule'],
                ['Created', formatTime(new Date(job.createdAt))],
                ['Started', job.startedAt === null ? undefined : formatTime(new Date(job.startedAt))],
                ['Ended', job.completedAt === null ? undefined : formatTime(new Date(job.completedAt))],
                [
                  'Took',
                  job.startedAt === null || job.completedAt === null
                    ? undefined
                    : formatDuration(Date.parse(job.completedAt) - Date.parse(job.startedAt)),
                ],
                ['Received', job.bytesTransferred === 0 ? undefined : formatBytes(job.bytesTransferred)],
                [
                  'To',
                  job.target === null ? undefined : <Target key="target" orgId={job.orgId} {...job.target} />,
                ],
                ['Number', job.id],
              ]}
            />
          </Stack>
        );
      }}
    </Loaded>
  );
}

function Target({
  orgId,
  connectionId,
  user,
  folder,
}: NonNullable<CloudBackupJobDetails['target']> & { orgId: string }) {
  const name = useConnectionName(orgId);
  return (
    <>
      {user ?? 'The user of each item'}, folder “{folder}”, by the connection “{name(connectionId)}”
    </>
  );
}
