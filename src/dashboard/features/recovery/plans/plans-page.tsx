import { Anchor, Group, Select, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useRefreshOn, type RecoveryPlan } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  Empty,
  formatCounted,
  formatWord,
  Loaded,
  NameCell,
  PagedTable,
  StateBadge,
  When,
} from '../../../ui/index.ts';
import { ExecuteDialog } from '../executions/execute-dialog.tsx';
import { RecoveryFrame } from '../parts/recovery-frame.tsx';
import { PlanState, Reached, RecoveryState } from '../parts/recovery-words.tsx';
import { PlanDialog } from './plan-dialog.tsx';

const route = getRouteApi('/signed-in/recovery');
const STATUSES = ['draft', 'active', 'archived'] as const;

/** Plans for the day on which everything is gone, and how well the last rehearsals went. */
export function PlansPage() {
  const { page, status } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const write = useRefusal('recovery:write');
  const execute = useRefusal('recovery:execute');
  const [isNew, setNew] = useState(false);
  const [executed, setExecuted] = useState<RecoveryPlan>();
  const plans = useQuery({
    ...apiQuery('GET /dr/plans', { query: { orgId, status, page: String(page ?? 1) } }),
    placeholderData: keepPreviousData,
  });
  const live = useLiveJobs(orgId === undefined ? {} : { orgId }).filter(({ kind }) => kind === 'dr');
  const states = live.map(({ id, state }) => `${id} ${state}`);
  useRefreshOn(states.sort().join(), ['GET /dr/plans']);
  const newPlan = (
    <Action refusal={write} leftSection={<IconPlus size={14} aria-hidden />} onClick={() => setNew(true)}>
      New plan
    </Action>
  );
  return (
    <RecoveryFrame
      title="Recovery"
      description="Which devices are restored in which order when a disaster has struck, and whether that works."
      actions={newPlan}
    >
      <Group>
        <Select
          aria-label="State"
          placeholder="Any state"
          clearable
          w={150}
          data={STATUSES.map((value) => ({ value, label: formatWord(value) }))}
          value={status ?? null}
          onChange={(value) =>
            void navigate({
              search: (previous) => ({
                ...previous,
                page: undefined,
                status: STATUSES.find((one) => one === value),
              }),
              replace: true,
            })
          }
        />
      </Group>
      <Loaded query={plans} what="Reading plans">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title={status === undefined ? 'No recovery plans' : 'No such plans'}
              action={status === undefined && newPlan}
            >
              {status === undefined
                ? 'A plan says in which order devices are restored, and how it is checked that they work. A rehearsal tries it in isolated places and takes everything down again, so you know beforehand how long it takes.'
                : 'No plan has this state.'}
            </Empty>
          ) : (
            <PagedTable
              label="Recovery plans"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
              columns={[
                {
                  header: 'Name',
                  isName: true,
                  cell: (plan) => (
                    <NameCell
                      name={plan.name}
                      description={`${names.organization(plan.orgId)} · ${sizeText(plan)}`}
                      to="/recovery/plans/$planId"
                      params={{ planId: plan.id }}
                    />
                  ),
                },
                {
                  header: 'State',
                  cell: (plan) => (
                    <Group gap={4}>
                      <PlanState status={plan.status} />
                      {plan.failedOverDevices > 0 && (
                        <StateBadge
                          tone="warning"
                          label={`${formatCounted(plan.failedOverDevices, 'device')} failed over`}
                        />
                      )}
                    </Group>
                  ),
                },
                { header: 'Last rehearsal', cell: (plan) => <LastRehearsal plan={plan} /> },
                {
                  header: 'Time to recover (RTO)',
                  cell: ({ lastRehearsal, rtoTargetMinutes }) => (
                    <Reached
                      seconds={lastRehearsal?.rtoSeconds ?? null}
                      targetMinutes={rtoTargetMinutes}
                      isMet={lastRehearsal?.rtoMet ?? null}
                    />
                  ),
                },
                {
                  header: 'Age of the data (RPO)',
                  cell: ({ lastRehearsal, rpoTargetMinutes }) => (
                    <Reached
                      seconds={lastRehearsal?.rpoSeconds ?? null}
                      targetMinutes={rpoTargetMinutes}
                      isMet={lastRehearsal?.rpoMet ?? null}
                    />
                  ),
                },
                {
                  header: 'Actions',
                  align: 'right',
                  width: 100,
                  cell: (plan) => (
                    <Action
                      size="compact-xs"
                      variant="subtle"
                      refusal={execute ?? notExecutable(plan)}
                      onClick={() => setExecuted(plan)}
                    >
                      Execute …
                    </Action>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {isNew && <PlanDialog plan={undefined} onClose={() => setNew(false)} />}
      {executed !== undefined && (
        <ExecuteDialog planId={executed.id} name={executed.name} onClose={() => setExecuted(undefined)} />
      )}
    </RecoveryFrame>
  );
}

export const sizeText = ({ groupCount, deviceCount }: RecoveryPlan): string =>
  `${formatCounted(groupCount, 'group')}, ${formatCounted(deviceCount, 'device')}`;

/** Why a plan cannot be executed now, whatever the type. */
export function notExecutable({ status, deviceCount, lastExecution }: RecoveryPlan): string | undefined {
  if (status === 'archived') return 'The plan is archived.';
  if (deviceCount === 0) return 'The plan has no devices yet. Add a group first.';
  return lastExecution !== null && lastExecution.finishedAt === null
    ? 'An execution of this plan has not ended yet.'
    : undefined;
}

function LastRehearsal({ plan: { lastRehearsal, lastExecution, nextRehearsalAt } }: { plan: RecoveryPlan }) {
  const open = lastExecution !== null && lastExecution.finishedAt === null ? lastExecution : undefined;
  const shown = open ?? lastRehearsal ?? undefined;
  return (
    <Stack gap={0} align="flex-start">
      {shown === undefined ? (
        <Text size="sm">Never rehearsed</Text>
      ) : (
        <Group gap={6}>
          <RecoveryState state={shown.status} />
          <Anchor
            size="xs"
            underline="always"
            renderRoot={(props) => (
              <Link {...props} to="/recovery/executions/$executionId" params={{ executionId: shown.id }} />
            )}
          >
            {open === undefined ? (
              <When at={lastRehearsal?.finishedAt} />
            ) : (
              `${formatWord(open.executionType)} now`
            )}
          </Anchor>
        </Group>
      )}
      {nextRehearsalAt !== null && (
        <Text size="xs" c="dimmed">
          Next: <When at={nextRehearsalAt} />
        </Text>
      )}
    </Stack>
  );
}
