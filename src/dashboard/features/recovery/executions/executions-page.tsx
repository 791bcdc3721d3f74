import { Group, Select } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery, useRefreshOn, type RecoveryExecution } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import {
  Action,
  Empty,
  formatDuration,
  formatWord,
  Loaded,
  NameCell,
  PagedTable,
  When,
} from '../../../ui/index.ts';
import { RecoveryFrame } from '../parts/recovery-frame.tsx';
import { Reached, RecoveryState, TYPE_NAMES } from '../parts/recovery-words.tsx';

const route = getRouteApi('/signed-in/recovery/executions');
const TYPES = ['rehearsal', 'failover', 'failback'] as const;
const STATUSES = ['pending', 'running', 'completed', 'failed', 'aborted'] as const;
const REFRESH_MS = 30_000;

/** Every rehearsal, failover and failback. */
export function ExecutionsPage() {
  const search = route.useSearch();
  const { plan, type, status, page } = search;
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  const plans = useQuery(apiQuery('GET /dr/plans', { query: { orgId, limit: '100' } }));
  const executions = useQuery({
    ...apiQuery('GET /dr/executions', {
      query: { orgId, planId: plan, executionType: type, status, page: String(page ?? 1) },
    }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const live = useLiveJobs(orgId === undefined ? {} : { orgId }).filter(({ kind }) => kind === 'dr');
  useRefreshOn(
    live
      .map((job) => `${job.id} ${job.state} ${job.done}`)
      .sort()
      .join(),
    ['GET /dr/executions'],
  );
  const isNarrowed = [plan, type, status].some((one) => one !== undefined);
  return (
    <RecoveryFrame
      title="Recovery executions"
      description="Rehearsals, failovers and failbacks, the newest first."
    >
      <Group gap="sm">
        <Select
          aria-label="Plan"
          placeholder="Any plan"
          clearable
          searchable
          w={230}
          data={(plans.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
          value={plan ?? null}
          onChange={(value) => change({ plan: value ?? undefined })}
        />
        <Select
          aria-label="Type"
          placeholder="Any type"
          clearable
          w={150}
          data={TYPES.map((value) => ({ value, label: TYPE_NAMES[value] }))}
          value={type ?? null}
          onChange={(value) => change({ type: TYPES.find((one) => one === value) })}
        />
        <Select
          aria-label="State"
          placeholder="Any state"
          clearable
          w={150}
          data={STATUSES.map((value) => ({ value, label: formatWord(value) }))}
          value={status ?? null}
          onChange={(value) => change({ status: STATUSES.find((one) => one === value) })}
        />
      </Group>
      <Loaded query={executions} what="Reading executions">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title={isNarrowed ? 'No such executions' : 'No plan was executed yet'}
              action={
                isNarrowed && (
                  <Action
                    variant="default"
                    onClick={() => change({ plan: undefined, type: undefined, status: undefined })}
                  >
                    Show all executions
                  </Action>
                )
              }
            >
              {isNarrowed
                ? 'No execution matches what you have chosen.'
                : 'A rehearsal is the way to begin: it restores to isolated places and touches nothing in use.'}
            </Empty>
          ) : (
            <PagedTable
              label="Recovery executions"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => change({ page: next })}
              columns={[
                {
                  header: 'Execution',
                  isName: true,
                  cell: ({ id, executionType, planName, note }) => (
                    <NameCell
                      name={`${TYPE_NAMES[executionType]} of ${planName}`}
                      description={note}
                      to="/recovery/executions/$executionId"
                      params={{ executionId: id }}
                    />
                  ),
                },
                { header: 'State', width: 130, cell: ({ status: state }) => <RecoveryState state={state} /> },
                { header: 'Devices', cell: devicesText },
                {
                  header: 'RTO',
                  width: 160,
                  cell: ({ report }) => (
                    <Reached
                      seconds={report?.rtoSeconds ?? null}
                      targetMinutes={report?.rtoTargetMinutes ?? null}
                      isMet={report?.rtoMet ?? null}
                    />
                  ),
                },
                {
                  header: 'RPO',
                  width: 160,
                  cell: ({ report }) => (
                    <Reached
                      seconds={report?.rpoSeconds ?? null}
                      targetMinutes={report?.rpoTargetMinutes ?? null}
                      isMet={report?.rpoMet ?? null}
                    />
                  ),
                },
                { header: 'Started', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
                { header: 'Took', width: 100, cell: took },
              ]}
            />
          )
        }
      </Loaded>
    </RecoveryFrame>
  );
}

/** "4 completed, 1 failed, 1 skipped": those of which there is any. */
export function devicesText({ stepCounts }: Pick<RecoveryExecution, 'stepCounts'>): string {
  const parts = Object.entries(stepCounts)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count} ${state === 'waiting' ? 'waiting' : state}`);
  return parts.length === 0 ? '–' : parts.join(', ');
}

function took({ startedAt, finishedAt }: RecoveryExecution): string {
  return startedAt === null || finishedAt === null
    ? '–'
    : formatDuration(Date.parse(finishedAt) - Date.parse(startedAt));
}
