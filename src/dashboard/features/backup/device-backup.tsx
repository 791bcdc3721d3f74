import { Anchor, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, useRefreshOn, type DeviceBackupStatus } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Failure, formatTime, JobStateBadge, Loaded, StateBadge, When } from '../../../ui/index.ts';
import { JobDrawer } from '../jobs/job-drawer.tsx';
import { FactTable } from '../parts/facts.tsx';
import { WorkProgress } from '../parts/work-progress.tsx';
import { SnapshotTable } from '../snapshots/snapshot-table.tsx';
import { RunBackup } from './run-backup.tsx';
import { ShadowCopies } from './shadow-copies.tsx';

const REFRESH_MS = 15_000;
const KINDS: readonly string[] = ['backup', 'restore', 'verification'];

/** Whether a device is protected, and what there is to restore. */
export function DeviceBackup({
  deviceId,
  orgId,
  isWindows,
}: {
  deviceId: string;
  orgId: string;
  isWindows: boolean;
}) {
  const [page, setPage] = useState(1);
  const [job, setJob] = useState<string>();
  const status = useQuery({
    ...apiQuery('GET /backup/status/{deviceId}', { params: { deviceId } }),
    refetchInterval: REFRESH_MS,
  });
  const work = useLiveJobs({ deviceId }).filter(({ kind }) => KINDS.includes(kind));
  const running = work.filter(({ kind, state }) => kind !== 'verification' && state === 'running');
  useRefreshOn(work.map(({ id, state }) => `${id} ${state}`).join(), [
    'GET /backup/status/{deviceId}',
    'GET /backup/snapshots',
  ]);
  return (
    <Stack gap="sm">
      <Loaded query={status} what="Reading the state of backups">
        {({ data }) => (
          <>
            <Group justify="space-between" align="flex-start">
              <Group gap="xs">
                <StateBadge
                  tone={data.protected ? 'good' : 'warning'}
                  label={data.protected ? 'Protected' : 'Not protected'}
                />
                <Text size="sm">{standing(data)}</Text>
              </Group>
              <Group gap="xs">
                <VerifyNow deviceId={deviceId} hasSnapshot={data.lastSuccessAt !== null} />
                <RunBackup
                  deviceId={deviceId}
                  orgId={orgId}
                  label={data.lastSuccessAt === null ? 'Protect this device' : 'Back up now'}
                />
              </Group>
            </Group>
            {running.map((each) => (
              <WorkProgress
                key={each.id}
                label={each.kind === 'backup' ? 'Progress of the backup' : 'Progress of the restore'}
                standing={each}
              />
            ))}
            <FactTable
              label="Backups of the device"
              facts={[
                ['Last success', <When key="success" at={data.lastSuccessAt} />],
                ['Last verified', <When key="verified" at={data.lastVerifiedAt} />],
                [
                  'Next by schedule',
                  data.nextScheduledAt === null
                    ? 'No schedule covers the device'
                    : `${formatTime(new Date(data.nextScheduledAt))} (times of the schedule are of ${data.timezone})`,
                ],
                ['Last job', <LastJob key="job" job={data.lastJob} onOpen={setJob} />],
                [
                  'Last failure',
                  data.lastFailureAt === null ? undefined : (
                    <span key="failure">
                      <When at={data.lastFailureAt} />: {data.lastFailureError ?? 'not known why'}
                    </span>
                  ),
                ],
              ]}
            />
          </>
        )}
      </Loaded>
      <Group justify="space-between">
        <Title order={2} size="h5">
          Snapshots
        </Title>
        <Anchor
          size="sm"
          renderRoot={(props) => <Link {...props} to="/backup/jobs" search={{ device: deviceId }} />}
        >
          All jobs of the device
        </Anchor>
      </Group>
      <SnapshotTable deviceId={deviceId} page={page} onPage={setPage} hidesDevice />
      {isWindows && <ShadowCopies deviceId={deviceId} />}
      <JobDrawer id={job} onClose={() => setJob(undefined)} />
    </Stack>
  );
}

function standing({ protected: isProtected, lastSuccessAt }: DeviceBackupStatus['data']): string {
  if (isProtected) return 'There is a snapshot, and the backups were verified.';
  return lastSuccessAt === null
    ? 'There is no snapshot of this device.'
    : 'There are snapshots, but nobody has verified that they can be read.';
}

function LastJob({
  job,
  onOpen,
}: {
  job: DeviceBackupStatus['data']['lastJob'];
  onOpen: (id: string) => void;
}) {
  if (job === null) return 'None';
  return (
    <Group gap="xs">
      <JobStateBadge state={job.status} />
      <When at={job.createdAt} />
      <Action size="compact-xs" variant="subtle" onClick={() => onOpen(job.id)}>
        Details
      </Action>
    </Group>
  );
}

function VerifyNow({ deviceId, hasSnapshot }: { deviceId: string; hasSnapshot: boolean }) {
  const refusal = useRefusal('backup:execute');
  const verify = useApiChange('POST /backup/verify', {
    refreshes: ['GET /backup/verifications', 'GET /backup/status/{deviceId}'],
  });
  return (
    <>
      <Action
        variant="default"
        refusal={refusal ?? (hasSnapshot ? undefined : 'There is no snapshot to verify.')}
        loading={verify.isPending}
        onClick={() => verify.mutate({ body: { deviceId, verificationType: 'integrity' } })}
      >
        {verify.isSuccess ? 'Verification has begun' : 'Verify now'}
      </Action>
      {verify.error !== null && <Failure error={verify.error} />}
    </>
  );
}
