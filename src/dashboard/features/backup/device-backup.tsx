import { Group, Stack, Text, Title } from '@mantine/core';
import { useQuery, useMutation } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  apiQuery,
  useApiChange,
  useRefreshOn,
  type DeviceBackupStatus,
  call,
  type DeviceVss,
} from '../../api/index.ts';
import { useLiveJobs } from '../../live/index.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Failure,
  formatTime,
  JobStateBadge,
  Loaded,
  StateBadge,
  When,
  formatCount,
  formatCounted,
  PagedTable,
  PartNote,
  Panel,
  type Tone,
  TextLink,
  FactTable,
  WorkProgress,
} from '../../ui/index.ts';
import { JobDrawer } from './job-drawer.tsx';
import { SnapshotTable } from './snapshots-page.tsx';

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
        <TextLink size="sm" to="/backup/jobs" search={{ device: deviceId }}>
          All jobs of the device
        </TextLink>
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
    : 'There are snapshots, but it was not verified that they can be read.';
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
      <Action inRow onClick={() => onOpen(job.id)}>
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

/** Backs a device up now, by the default configuration of its organization; without any, it offers to make one. */
function RunBackup({ deviceId, orgId, label }: { deviceId: string; orgId: string; label: string }) {
  const navigate = useNavigate();
  const execute = useRefusal('backup:execute');
  const write = useRefusal('backup:write');
  const configs = useQuery(apiQuery('GET /backup/configs', { query: { orgId, limit: '100' } }));
  const run = useApiChange('POST /backup/jobs/run/{deviceId}', {
    refreshes: ['GET /backup/jobs', 'GET /backup/status/{deviceId}'],
  });
  if (configs.data === undefined) return configs.error === null ? null : <Failure error={configs.error} />;
  const { data } = configs.data;
  const config = data.find(({ isDefault }) => isDefault) ?? (data.length === 1 ? data[0] : undefined);
  if (config === undefined) {
    return (
      <Action
        refusal={write}
        onClick={() => void navigate({ to: '/backup/configurations', search: { org: orgId } })}
      >
        {data.length === 0 ? 'Make a configuration first' : 'Choose a default configuration first'}
      </Action>
    );
  }
  const disabled = config.enabled ? undefined : `The configuration “${config.name}” is switched off.`;
  return (
    <>
      <Action
        refusal={execute ?? disabled}
        loading={run.isPending}
        onClick={() => run.mutate({ params: { deviceId }, body: { configId: config.id } })}
      >
        {label}
      </Action>
      {run.error !== null && <Failure error={run.error} />}
    </>
  );
}

type Vss = DeviceVss['data'];
type Writer = Vss['writers'][number];

const STATES: Readonly<Record<Vss['status'], { tone: Tone; label: string; text: string }>> = {
  ready: { tone: 'good', label: 'Ready', text: 'Every program that takes part is ready for a backup.' },
  busy: { tone: 'info', label: 'Busy', text: 'A backup is going on, and programs wait for its end.' },
  failed: {
    tone: 'bad',
    label: 'Failed',
    text: 'Some programs did not take part the last time, so their data may be missing or not whole in backups. Restarting their service often helps.',
  },
  unknown: {
    tone: 'warning',
    label: 'Not known',
    text: 'Windows lists no writers, or does not say how they are.',
  },
};

const WRITERS: Readonly<Record<Writer['status'], { tone: Tone; label: string }>> = {
  failed: { tone: 'bad', label: 'Failed' },
  unknown: { tone: 'warning', label: 'Not known' },
  waiting: { tone: 'info', label: 'Waits' },
  stable: { tone: 'good', label: 'Stable' },
};
const ORDER = Object.keys(WRITERS);

/** Whether Windows can make shadow copies, from which files in use are backed up. The device is asked on demand. */
function ShadowCopies({ deviceId }: { deviceId: string }) {
  const refusal = useRefusal('backup:read');
  const look = useMutation({
    mutationFn: () => call('GET /backup/vss/status/{deviceId}', { params: { deviceId } }),
  });
  const found = look.data?.data;
  return (
    <Panel
      title="Shadow copies (VSS)"
      aside={
        <Action
          variant="default"
          size="compact-sm"
          refusal={refusal}
          loading={look.isPending}
          onClick={() => look.mutate()}
        >
          {found === undefined ? 'Ask the device' : 'Ask again'}
        </Action>
      }
    >
      {look.error !== null && <Failure error={look.error} />}
      {found !== undefined ? (
        <Found vss={found} />
      ) : (
        look.error === null && (
          <Text size="sm">
            Files in use are backed up from shadow copies. Ask the device whether its programs take part.
          </Text>
        )
      )}
    </Panel>
  );
}

function Found({ vss }: { vss: Vss }) {
  const { status, writers, writerCount, providers, providerCount, checkedAt } = vss;
  const { text, ...badge } = STATES[status];
  const stable = writers.filter((writer) => writer.status === 'stable').length;
  return (
    <>
      <Group gap="xs" wrap="nowrap" align="flex-start">
        <StateBadge {...badge} />
        <Text size="sm">{text}</Text>
      </Group>
      {writers.length > 0 && (
        <PagedTable
          label="Writers of shadow copies"
          // Failures come first.
          rows={writers
            .map((writer, place) => ({ ...writer, key: `${writer.writerId} ${place}` }))
            .sort(
              (a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status) || a.name.localeCompare(b.name),
            )}
          keyOf={({ key }) => key}
          columns={[
            { header: 'Writer', isName: true, cell: ({ name }) => name },
            { header: 'State', width: 120, cell: (writer) => <StateBadge {...WRITERS[writer.status]} /> },
            { header: 'Last error, as Windows says it', cell: ({ lastError }) => lastError || '–' },
          ]}
        />
      )}
      <Text size="xs">
        {formatCount(stable)} of {formatCounted(writers.length, 'writer')} stable
        {providers.length > 0 && `. Copies are made by ${providers.map(({ name }) => name).join(', ')}`}
        {providerCount !== undefined && ` and ${formatCount(providerCount - providers.length)} more`}. Asked{' '}
        <When at={checkedAt} />.
      </Text>
      <PartNote listed={writers.length} total={writerCount} />
    </>
  );
}
