import { Anchor, Drawer, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useEffect } from 'react';
import { apiQuery, useApiChange } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  ConfirmAction,
  formatBytes,
  formatDuration,
  formatTime,
  JobStateBadge,
  Loaded,
  When,
} from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { FactTable } from '../parts/facts.tsx';
import { Cause, FailedPaths } from '../parts/faults.tsx';
import { WorkProgress } from '../parts/work-progress.tsx';
import { WAITS } from './waits.ts';

/** One backup job: how far it is, what went wrong, and which files could not be read. */
export function JobDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  return (
    <Drawer
      opened={id !== undefined}
      onClose={onClose}
      position="right"
      size="lg"
      title="Backup job"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {id !== undefined && <JobDetails key={id} id={id} />}
    </Drawer>
  );
}

function JobDetails({ id }: { id: string }) {
  const queries = useQueryClient();
  const refusal = useRefusal('backup:execute');
  const query = useQuery(apiQuery('GET /backup/jobs/{id}', { params: { id } }));
  const [live] = useLiveJobs({ jobId: id });
  const cancel = useApiChange('POST /backup/jobs/{id}/cancel', {
    refreshes: ['GET /backup/jobs/{id}', 'GET /backup/jobs'],
  });
  const state = live?.state;
  useEffect(() => {
    if (state !== undefined) void queries.invalidateQueries({ queryKey: ['GET /backup/jobs/{id}'] });
  }, [state, queries]);
  return (
    <Loaded query={query} what="Reading the job">
      {(job) => {
        const isOpen = job.status === 'pending' || job.status === 'running';
        const { progress } = job;
        const asked = job.cancelRequestedAt === null ? undefined : 'It was asked to stop already.';
        return (
          <Stack gap="sm">
            <Group justify="space-between">
              <Group gap="xs">
                <Title order={2} size="h4">
                  <DeviceLink id={job.deviceId} />
                </Title>
                <JobStateBadge state={job.status} />
              </Group>
              {isOpen && (
                <ConfirmAction
                  variant="default"
                  refusal={refusal ?? asked}
                  title="Stop this backup"
                  question="What was sent so far stays, and the next backup need not send it again."
                  confirm="Stop the backup"
                  run={() => cancel.mutateAsync({ params: { id } })}
                >
                  Cancel
                </ConfirmAction>
              )}
            </Group>
            {job.status === 'pending' && job.waitingFor !== null && (
              <Text size="sm">
                {WAITS[job.waitingFor]} A job that has not begun by {formatTime(new Date(job.expiresAt))}{' '}
                fails.
              </Text>
            )}
            {job.status === 'running' && (
              <WorkProgress
                label="Progress of the backup"
                standing={{
                  phase: progress.phase,
                  percent: progress.percent,
                  done: progress.doneBytes,
                  total: progress.totalBytes,
                  filesDone: progress.doneFiles,
                  filesTotal: progress.totalFiles,
                  rate: progress.rate,
                  etaSeconds: progress.etaSeconds,
                  path: progress.currentPath,
                  stalledSince: progress.stalledSince,
                  ...live,
                }}
              />
            )}
            <Cause error={job.error} title={job.status === 'partial' ? 'It is not whole' : 'It failed'} />
            <FailedPaths title="Files that could not be read" {...job.unreadable} />
            <FailedPaths title="Virtual file systems that were left out" {...job.leftOut} />
            <FailedPaths
              title="Volumes without a shadow copy, where files in use can be torn"
              count={job.shadowCopies?.isCut === true ? null : (job.shadowCopies?.problems.length ?? 0)}
              paths={(job.shadowCopies?.problems ?? []).map(({ volume, message }) => ({
                path: volume === '' ? 'All volumes' : volume,
                message,
              }))}
            />
            <FactTable
              label="About the job"
              facts={[
                ['Started by', job.type === 'manual' ? 'A person' : 'Its schedule'],
                ['Created', <When key="made" at={job.createdAt} />],
                ['Due', formatTime(new Date(job.dueAt))],
                ['Started', job.startedAt === null ? undefined : formatTime(new Date(job.startedAt))],
                ['Ended', job.finishedAt === null ? undefined : formatTime(new Date(job.finishedAt))],
                [
                  'Took',
                  job.startedAt === null || job.finishedAt === null
                    ? undefined
                    : formatDuration(Date.parse(job.finishedAt) - Date.parse(job.startedAt)),
                ],
                ['Added to the store', job.addedBytes === null ? undefined : formatBytes(job.addedBytes)],
                [
                  'Snapshot',
                  job.snapshotId === null ? undefined : <ToSnapshot key="snapshot" id={job.snapshotId} />,
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

function ToSnapshot({ id }: { id: string }) {
  return (
    <Anchor
      inherit
      renderRoot={(props) => (
        <Link {...props} to="/backup/snapshots/$snapshotId" params={{ snapshotId: id }} />
      )}
    >
      Look into it
    </Anchor>
  );
}
