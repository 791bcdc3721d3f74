import { Text, Group, Stack, Title, Switch } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import {
  type CloudBackupJob,
  useList,
  apiQuery,
  useApiChange,
  type CloudBackupJobDetails,
} from '../../api/index.ts';
import { choicesOf } from '../../directory.ts';
import { useLiveWork } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import {
  formatBytes,
  formatWord,
  JobStateBadge,
  useAddress,
  formatCount,
  PagedTable,
  StateBadge,
  type Tone,
  type Work,
  WorkDrawer,
  WorkList,
  workOf,
} from '../../ui/index.ts';
import {
  CloudFrame,
  useCloudConfigs,
  useConfigName,
  useConnectionName,
  ITEM_NAMES,
  KIND_NAMES,
} from './cloud-frame.tsx';
import { useState } from 'react';
import { useRefusal } from '../../session.ts';

const route = getRouteApi('/signed-in/cloud-backup/jobs');
const REFRESH_MS = 30_000;

/** Runs of cloud backups, and restores. */
export function CloudJobsPage() {
  const address = useAddress(route.useSearch());
  const { config, type, status, job, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const configs = useCloudConfigs(orgId);
  const configName = useConfigName(orgId);
  const jobs = useList(
    'GET /c2c/jobs',
    { query: { orgId, configId: config, type, status, page: String(page) } },
    REFRESH_MS,
  );
  const live = useLiveWork('cloud_backup', orgId, ['GET /c2c/jobs']);
  return (
    <WorkList
      frame={CloudFrame}
      title="Cloud backup jobs"
      description="They go on when you close this page."
      views="cloud-jobs"
      query={jobs}
      noun="jobs"
      label="Cloud backup jobs"
      address={address}
      facets={[
        {
          kind: 'choice',
          name: 'config',
          label: 'Configuration',
          any: 'Any configuration',
          options: choicesOf(configs.data?.data ?? []),
          width: 230,
          isSearchable: true,
        },
        {
          kind: 'choice',
          name: 'type',
          label: 'Kind of job',
          any: 'Backups and restores',
          options: [
            { value: 'backup', label: 'Backups' },
            { value: 'restore', label: 'Restores' },
          ],
          width: 190,
        },
        {
          kind: 'choice',
          name: 'status',
          label: 'State',
          any: 'Any state',
          options: ['pending', 'running', 'completed', 'partial', 'failed', 'cancelled'],
        },
      ]}
      empty={{
        title: 'Nothing was backed up yet',
        text: 'Runs of configurations and restores of items are listed here.',
      }}
      workOf={cloudWork}
      live={live}
      subject={[
        { header: 'Configuration', isName: true, cell: ({ configId }) => configName(configId) },
        { header: 'Kind', width: 90, cell: (each) => formatWord(each.type) },
      ]}
      columns={[
        { header: 'Started by', width: 100, cell: startedBy },
        {
          header: 'Received',
          align: 'right',
          width: 90,
          cell: ({ bytesTransferred }) => (bytesTransferred === 0 ? '–' : formatBytes(bytesTransferred)),
        },
      ]}
      onOpen={(id) => address.set({ job: id })}
    >
      <CloudJobDrawer id={job} onClose={() => address.set({ job: undefined })} />
    </WorkList>
  );
}

const startedBy = ({ trigger }: Pick<CloudBackupJob, 'trigger'>): string =>
  trigger === 'manual' ? 'A person' : 'Its schedule';

/** A run or a restore in the words of all work. It counts items, so its progress is said in a text of its own. */
function cloudWork(job: CloudBackupJob, live: Live | undefined): Work {
  return {
    ...workOf(job),
    standing: {
      // Before its first part is done, a moving bar says that work goes on.
      percent: (live?.percent ?? 0) > 0 ? live?.percent : null,
      text: progressText(job, live),
    },
    error: job.error,
    outcome: job.type === 'backup' ? countsText(job) : restoredText(job),
    cancelRequestedAt: job.cancelRequestedAt,
    startedBy: startedBy(job),
    finishedAt: job.completedAt,
  };
}

const JOB_REFRESH_MS = 5000;
const READS = ['GET /c2c/jobs/{id}', 'GET /c2c/jobs', 'GET /c2c/configs'] as const;

/** One job: its progress, and the result for each user or item. */
function CloudJobDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const refusal = useRefusal('backup:execute');
  const cancel = useApiChange('POST /c2c/jobs/{id}/cancel', { refreshes: READS });
  return (
    <WorkDrawer
      title="Cloud backup job"
      size="xl"
      name="the job"
      nameOf={({ type }: CloudBackupJobDetails) => `the ${type}`}
      opened={id}
      onClose={onClose}
      read={(opened) => apiQuery('GET /c2c/jobs/{id}', { params: { id: opened } })}
      reads={READS}
      every={{ ms: JOB_REFRESH_MS }}
      workOf={cloudWork}
      heading={(job) => <Heading {...job} />}
      cancel={(job) => ({
        refusal,
        run: () => cancel.mutateAsync({ params: { id: job.id } }),
        question: QUESTIONS[job.type],
      })}
      facts={({ bytesTransferred, target, orgId: owner }) => [
        ['Received', bytesTransferred === 0 ? undefined : formatBytes(bytesTransferred)],
        ['To', target === null ? undefined : <Target key="target" orgId={owner} {...target} />],
      ]}
    >
      {(job) =>
        job.type === 'restore' ? (
          <RestoredItems items={job.items} />
        ) : (
          <UserOutcomes outcomes={job.outcomes} total={job.outcomesTotal} />
        )
      }
    </WorkDrawer>
  );
}

function Heading({ type, configId, orgId }: CloudBackupJobDetails) {
  const configName = useConfigName(orgId);
  return (
    <>
      {type === 'restore' ? 'Restore from ' : 'Backup of '}
      {configName(configId)}
    </>
  );
}

const QUESTIONS = {
  backup: {
    title: 'Stop this backup',
    text: 'What was backed up so far stays. The next run goes on from there.',
    confirm: 'Stop the backup',
  },
  restore: {
    title: 'Stop this restore',
    text: 'Items that were restored so far stay where they are.',
    confirm: 'Stop the restore',
  },
};

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

type Outcome = CloudBackupJobDetails['outcomes'][number];
type Item = CloudBackupJobDetails['items'][number];

const PER_PAGE = 25;

/**
 * Of a backup: the result for each user and kind. Those with failures come first.
 * @param total  how many there are: the server does not list all of very many
 */
function UserOutcomes({ outcomes, total }: { outcomes: readonly Outcome[]; total: number }) {
  const faulty = outcomes.filter(({ status, itemsFailed }) => status === 'failed' || itemsFailed > 0);
  const [onlyFaulty, setOnlyFaulty] = useState(false);
  const [page, setPage] = useState(1);
  if (outcomes.length === 0) return <Text size="sm">Its users are not known yet.</Text>;
  const shown = onlyFaulty ? faulty : outcomes;
  return (
    <Stack gap={4} component="section" aria-label="Users">
      <Group justify="space-between">
        <Title order={3} size="h5">
          Users
        </Title>
        {faulty.length > 0 && (
          <Switch
            size="xs"
            label={`Only those with failures (${formatCount(faulty.length)})`}
            checked={onlyFaulty}
            onChange={(event) => {
              setOnlyFaulty(event.currentTarget.checked);
              setPage(1);
            }}
          />
        )}
      </Group>
      <PagedTable
        label="What became of each user"
        rows={shown.slice((page - 1) * PER_PAGE, page * PER_PAGE)}
        keyOf={({ userEmail, kind }) => `${userEmail} ${kind}`}
        page={{ page, limit: PER_PAGE, total: shown.length }}
        onPage={setPage}
        columns={[
          { header: 'User', isName: true, cell: ({ userEmail }) => userEmail },
          { header: 'Kind', width: 90, cell: ({ kind }) => KIND_NAMES[kind] },
          {
            header: 'State',
            width: 120,
            cell: ({ status }) =>
              status === 'skipped' ? (
                <StateBadge tone="neutral" label="Not there" title="The user has no such mailbox or drive." />
              ) : (
                <JobStateBadge state={status} />
              ),
          },
          { header: 'Items', cell: (outcome) => <OutcomeText {...outcome} /> },
          {
            header: 'Received',
            align: 'right',
            width: 90,
            cell: ({ bytesTransferred }) => (bytesTransferred === 0 ? '–' : formatBytes(bytesTransferred)),
          },
        ]}
      />
      {total > outcomes.length && (
        <Text size="sm">
          These are {formatCount(outcomes.length)} of {formatCount(total)}; those with failures come first.
        </Text>
      )}
    </Stack>
  );
}

function OutcomeText(outcome: Outcome) {
  const { status, error } = outcome;
  if (status === 'pending') return 'Not begun';
  if (status === 'skipped') return '–';
  return (
    <>
      {countsText(outcome)}
      {error !== null && (
        <Text size="xs" c="dimmed">
          {error.message}
        </Text>
      )}
    </>
  );
}

const ITEM_STATES: Readonly<Record<Item['status'], { tone: Tone; label: string; title?: string }>> = {
  pending: { tone: 'neutral', label: 'Not begun' },
  restored: { tone: 'good', label: 'Restored' },
  present: {
    tone: 'info',
    label: 'There already',
    title: 'An earlier restore has brought this content to the place.',
  },
  failed: { tone: 'bad', label: 'Failed' },
};

/** The result of a restore for each item. */
function RestoredItems({ items }: { items: readonly Item[] }) {
  const [page, setPage] = useState(1);
  if (items.length === 0) return <Text size="sm">Its items were removed by retention since then.</Text>;
  return (
    <Stack gap={4} component="section" aria-label="Items">
      <Title order={3} size="h5">
        Items ({formatCount(items.length)})
      </Title>
      <PagedTable
        label="What became of each item"
        rows={items.slice((page - 1) * PER_PAGE, page * PER_PAGE)}
        keyOf={({ itemId }) => itemId}
        page={{ page, limit: PER_PAGE, total: items.length }}
        onPage={setPage}
        columns={[
          {
            header: 'Name',
            isName: true,
            cell: ({ subjectOrName, itemType }) => (
              <span style={{ wordBreak: 'break-word' }}>
                {subjectOrName === '' ? `${ITEM_NAMES[itemType]} without a name` : subjectOrName}
              </span>
            ),
          },
          { header: 'Kind', width: 90, cell: ({ itemType }) => ITEM_NAMES[itemType] },
          { header: 'Of', cell: ({ userEmail }) => userEmail },
          { header: 'State', width: 130, cell: ({ status }) => <StateBadge {...ITEM_STATES[status]} /> },
          { header: 'Cause', cell: ({ error }) => error?.message ?? '–' },
        ]}
      />
    </Stack>
  );
}

type Counts = Pick<CloudBackupJob, 'itemsNew' | 'itemsUpdated' | 'itemsDeleted' | 'itemsFailed'>;

/** "12 new, 3 changed, 1 deleted, 2 failed": those of which there is any. */
function countsText({ itemsNew, itemsUpdated, itemsDeleted, itemsFailed }: Counts): string {
  const parts = [
    [itemsNew, 'new'],
    [itemsUpdated, 'changed'],
    [itemsDeleted, 'deleted'],
    [itemsFailed, 'failed'],
  ] as const;
  const text = parts
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${formatCount(count)} ${word}`)
    .join(', ');
  return text === '' ? 'Nothing has changed' : text;
}

function restoredText({ itemsNew, itemsFailed, itemsProcessed }: CloudBackupJob): string {
  const present = itemsProcessed - itemsNew - itemsFailed;
  const text = [
    [itemsNew, 'restored'],
    [present, 'there already'],
    [itemsFailed, 'failed'],
  ]
    .filter(([count]) => Number(count) > 0)
    .map(([count, word]) => `${formatCount(Number(count))} ${word}`)
    .join(', ');
  return text === '' ? 'Nothing yet' : text;
}

interface Live {
  percent?: number | null | undefined;
  done?: number | null | undefined;
}

/** The progress of a job that has not ended. */
function progressText(job: CloudBackupJob, live: Live | undefined): string {
  const done = live?.done ?? job.itemsProcessed;
  return [
    job.type === 'backup' ? `${formatCount(done)} items looked at` : `${formatCount(done)} items done`,
    live?.percent == null || live.percent === 0 ? undefined : `${Math.round(live.percent)} %`,
    job.bytesTransferred === 0 ? undefined : `${formatBytes(job.bytesTransferred)} received`,
  ]
    .filter((part) => part !== undefined)
    .join(' · ');
}
