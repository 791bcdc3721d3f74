import { Anchor, Group, Stack, Text } from '@mantine/core';
import { IconPencil, IconPlayerPlay, IconPlus, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  apiQuery,
  useApiChange,
  useRefreshOn,
  type RecoveryGroup,
  type RecoveryPlanDetail,
} from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  ConfirmAction,
  Empty,
  formatDuration,
  Loaded,
  PagedTable,
  Panel,
  When,
} from '../../../ui/index.ts';
import { DeviceLink, scheduleText } from '../../backup/index.ts';
import { ExecuteDialog } from '../executions/execute-dialog.tsx';
import { GroupDialog } from '../groups/group-dialog.tsx';
import { GroupPanel } from '../groups/group-panel.tsx';
import { FactLine } from '../parts/fact-line.tsx';
import { RecoveryFrame } from '../parts/recovery-frame.tsx';
import { PlanState, Reached, RecoveryState, RESTORE_NAMES } from '../parts/recovery-words.tsx';
import { PlanDialog } from './plan-dialog.tsx';
import { notExecutable, sizeText } from './plans-page.tsx';

const route = getRouteApi('/signed-in/recovery/plans/$planId');
const READS = ['GET /dr/plans/{id}', 'GET /dr/plans'] as const;

/** One plan: what it demands, its groups in their order, and what has failed over. */
export function PlanPage() {
  const { planId: id } = route.useParams();
  const plan = useQuery(apiQuery('GET /dr/plans/{id}', { params: { id } }));
  const live = useLiveJobs(plan.data === undefined ? undefined : { orgId: plan.data.orgId });
  const states = live.filter(({ kind }) => kind === 'dr').map((job) => `${job.id} ${job.state}`);
  useRefreshOn(states.sort().join(), READS);
  return (
    <Loaded query={plan} what="Reading the plan">
      {(data) => <Plan plan={data} />}
    </Loaded>
  );
}

type Opened = { what: 'plan' | 'execute' } | { what: 'group'; group: RecoveryGroup | undefined };

function Plan({ plan }: { plan: RecoveryPlanDetail }) {
  const { id, orgId, name } = plan;
  const navigate = useNavigate();
  const names = useNames();
  const write = useRefusal('recovery:write');
  const execute = useRefusal('recovery:execute');
  const [opened, setOpened] = useState<Opened>();
  const close = () => setOpened(undefined);
  const remove = useApiChange('DELETE /dr/plans/{id}', { refreshes: ['GET /dr/plans'] });
  const busy = notExecutable(plan);
  const addGroup = (
    <Action
      variant="default"
      refusal={write}
      leftSection={<IconPlus size={14} aria-hidden />}
      onClick={() => setOpened({ what: 'group', group: undefined })}
    >
      Add a group
    </Action>
  );
  return (
    <RecoveryFrame
      title={name}
      description={
        <Group gap={8}>
          <PlanState status={plan.status} />
          <span>
            {names.organization(orgId)} · {sizeText(plan)}
          </span>
        </Group>
      }
      actions={
        <>
          <Action
            variant="default"
            refusal={write}
            leftSection={<IconPencil size={14} aria-hidden />}
            onClick={() => setOpened({ what: 'plan' })}
          >
            Change
          </Action>
          <ConfirmAction
            variant="default"
            refusal={
              write ?? (plan.failedOver.length > 0 ? 'Devices have failed over: fail back first.' : undefined)
            }
            leftSection={<IconTrash size={14} aria-hidden />}
            title={`Delete “${name}”`}
            question="The plan and its groups are deleted. The records of its executions stay. This cannot be undone."
            confirm="Delete"
            run={async () => {
              await remove.mutateAsync({ params: { id } });
              await navigate({ to: '/recovery' });
            }}
          >
            Delete
          </ConfirmAction>
          <Action
            refusal={execute ?? busy}
            leftSection={<IconPlayerPlay size={14} aria-hidden />}
            onClick={() => setOpened({ what: 'execute' })}
          >
            Execute …
          </Action>
        </>
      }
    >
      {plan.description !== null && (
        <Text size="sm" style={{ whiteSpace: 'pre-wrap' }}>
          {plan.description}
        </Text>
      )}
      <PlanFacts plan={plan} />
      {plan.failedOver.length > 0 && <FailedOver plan={plan} />}
      <Group justify="space-between">
        <Text size="sm" c="dimmed">
          Groups of one number run together; the next number waits for them.
        </Text>
        {plan.groups.length > 0 && addGroup}
      </Group>
      {plan.groups.length === 0 ? (
        <Empty title="No groups" action={addGroup}>
          A group has the devices that are restored at the same time, such as those with the databases.
          Further groups wait for it.
        </Empty>
      ) : (
        plan.groups.map((group) => (
          <GroupPanel
            key={group.id}
            group={group}
            plan={plan}
            refusal={write}
            onChange={() => setOpened({ what: 'group', group })}
          />
        ))
      )}
      {opened?.what === 'plan' && <PlanDialog plan={plan} onClose={close} />}
      {opened?.what === 'execute' && <ExecuteDialog planId={id} name={name} onClose={close} />}
      {opened?.what === 'group' && <GroupDialog plan={plan} group={opened.group} onClose={close} />}
    </RecoveryFrame>
  );
}

function PlanFacts({ plan }: { plan: RecoveryPlanDetail }) {
  const { lastRehearsal, lastExecution, rehearsalSchedule, nextRehearsalAt, id } = plan;
  return (
    <FactLine
      facts={[
        [
          'Time to recover (RTO)',
          <Reached
            key="rto"
            seconds={lastRehearsal?.rtoSeconds ?? null}
            targetMinutes={plan.rtoTargetMinutes}
            isMet={lastRehearsal?.rtoMet ?? null}
          />,
        ],
        [
          'Age of the data (RPO)',
          <Reached
            key="rpo"
            seconds={lastRehearsal?.rpoSeconds ?? null}
            targetMinutes={plan.rpoTargetMinutes}
            isMet={lastRehearsal?.rpoMet ?? null}
          />,
        ],
        [
          'Rehearsals',
          <>
            {scheduleText(rehearsalSchedule)}
            {nextRehearsalAt !== null && (
              <>
                , next: <When at={nextRehearsalAt} />
              </>
            )}
          </>,
        ],
        [
          'Last execution',
          lastExecution === null ? (
            'None'
          ) : (
            <Group key="last" gap="2px 8px">
              <RecoveryState state={lastExecution.status} />
              <Anchor
                inherit
                underline="always"
                renderRoot={(props) => (
                  <Link
                    {...props}
                    to="/recovery/executions/$executionId"
                    params={{ executionId: lastExecution.id }}
                  />
                )}
              >
                <When at={lastExecution.finishedAt ?? lastExecution.createdAt} />
              </Anchor>
              <Anchor
                inherit
                renderRoot={(props) => <Link {...props} to="/recovery/executions" search={{ plan: id }} />}
              >
                All of this plan
              </Anchor>
            </Group>
          ),
        ],
        [
          'Estimated',
          estimateOf(plan) === 0 ? undefined : `${formatDuration(estimateOf(plan) * 60_000)} by its groups`,
        ],
      ]}
    />
  );
}

/** Of groups that run together, the longest counts. */
function estimateOf({ groups }: RecoveryPlanDetail): number {
  const longest = new Map<number, number>();
  for (const { sequence, estimatedDurationMinutes } of groups) {
    longest.set(sequence, Math.max(longest.get(sequence) ?? 0, estimatedDurationMinutes ?? 0));
  }
  return [...longest.values()].reduce((sum, minutes) => sum + minutes, 0);
}

function FailedOver({ plan: { failedOver } }: { plan: RecoveryPlanDetail }) {
  return (
    <Panel title="Devices that have failed over">
      <Stack gap={4}>
        <Text size="sm">Others do their work, until a failback brings the changed data back.</Text>
        <PagedTable
          label="Devices that have failed over"
          rows={failedOver}
          keyOf={({ deviceId, machine, executionId }) => `${deviceId} ${machine ?? ''} ${executionId}`}
          columns={[
            {
              header: 'Device',
              isName: true,
              cell: ({ deviceId, machine }) => (
                <>
                  <DeviceLink id={deviceId} />
                  {machine !== null && `, its guest ${machine}`}
                </>
              ),
            },
            {
              header: 'Its work is done by',
              cell: ({ targetDeviceId }) => <DeviceLink id={targetDeviceId} />,
            },
            { header: 'As', cell: ({ restoreType }) => RESTORE_NAMES[restoreType] },
            { header: 'Since', width: 130, cell: ({ since }) => <When at={since} /> },
          ]}
        />
      </Stack>
    </Panel>
  );
}
