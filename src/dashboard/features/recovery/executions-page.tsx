import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery, type RecoveryExecution, useList } from '../../api/index.ts';
import { choicesOf } from '../../directory.ts';
import { useLiveWork } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import {
  NameCell,
  useAddress,
  type Work,
  WorkList,
  formatCount,
  formatWord,
  workOf,
} from '../../ui/index.ts';
import type { JobUpdate } from '../../../protocol/index.ts';
import { RecoveryFrame, Reached, recoveryState, TYPE_NAMES } from './recovery-frame.tsx';

const route = getRouteApi('/signed-in/recovery/executions');
const TYPES = ['rehearsal', 'failover', 'failback'] as const;
const REFRESH_MS = 30_000;

/** Every rehearsal, failover and failback. */
export function ExecutionsPage() {
  const address = useAddress(route.useSearch());
  const { plan, type, status, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const plans = useQuery(apiQuery('GET /dr/plans', { query: { orgId, limit: '100' } }));
  const executions = useList(
    'GET /dr/executions',
    {
      query: { orgId, planId: plan, executionType: type, status, page: String(page) },
    },
    REFRESH_MS,
  );
  const live = useLiveWork(
    'dr',
    orgId,
    ['GET /dr/executions'],
    ({ id, state, done }) => `${id} ${state} ${done}`,
  );
  return (
    <WorkList
      frame={RecoveryFrame}
      title="Recovery executions"
      description="Rehearsals, failovers and failbacks, the newest first."
      views="executions"
      query={executions}
      noun="executions"
      label="Recovery executions"
      address={address}
      facets={[
        {
          kind: 'choice',
          name: 'plan',
          label: 'Plan',
          any: 'Any plan',
          options: choicesOf(plans.data?.data ?? []),
          width: 230,
          isSearchable: true,
        },
        {
          kind: 'choice',
          name: 'type',
          label: 'Type',
          any: 'Any type',
          options: TYPES.map((value) => ({ value, label: TYPE_NAMES[value] })),
        },
        {
          kind: 'choice',
          name: 'status',
          label: 'State',
          any: 'Any state',
          options: ['pending', 'running', 'completed', 'failed', 'aborted'],
        },
      ]}
      empty={{
        title: 'No plan was executed yet',
        text: 'A rehearsal is the way to begin: it restores to isolated places and touches nothing in use.',
      }}
      workOf={executionWork}
      live={live}
      subject={[
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
      ]}
      columns={[
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
      ]}
    />
  );
}

/** An execution in the words of all work. It counts devices. */
export function executionWork(execution: RecoveryExecution, live?: JobUpdate): Work {
  const { stepCounts, status, haltReason, startedAt, finishedAt, trigger, abortRequestedAt } = execution;
  const total = Object.values(stepCounts).reduce((sum, count) => sum + count, 0);
  const { waiting = 0, running = 0, checking = 0 } = stepCounts;
  const done = total - waiting - running - checking;
  const phase = formatWord(live === undefined || live.phase === live.state ? 'restoring' : live.phase);
  return {
    ...workOf(execution),
    state: recoveryState(status),
    stage: finishedAt !== null ? 'idle' : startedAt === null ? 'waiting' : 'running',
    standing: {
      percent: done === 0 ? null : (100 * done) / Math.max(1, total),
      text: `${phase} · ${formatCount(done)} of ${formatCount(total)} devices`,
    },
    outcome: haltReason ?? devicesText(execution),
    cancelRequestedAt: abortRequestedAt,
    startedBy: trigger === 'manual' ? 'A person' : 'Its schedule',
    finishedAt,
  };
}

/** "4 completed, 1 failed, 1 skipped": those of which there is any. */
export function devicesText({ stepCounts }: Pick<RecoveryExecution, 'stepCounts'>): string {
  const parts = Object.entries(stepCounts)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count} ${state === 'waiting' ? 'waiting' : state}`);
  return parts.length === 0 ? '–' : parts.join(', ');
}
