import { Group, Stack, Text, Badge } from '@mantine/core';
import { IconPencil, IconPlayerPlay, IconPlus, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  apiQuery,
  useApiChange,
  useRefreshOn,
  type RecoveryGroup,
  type RecoveryPlanDetail,
  type RecoveryDevice,
  type RecoveryScript,
  type RecoveryCheck,
} from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useLiveJobs } from '../../live/index.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  Empty,
  formatDuration,
  Loaded,
  PagedTable,
  Panel,
  When,
  TextLink,
} from '../../ui/index.ts';
import { DeviceLink, scheduleText } from '../backup/index.ts';
import { ExecuteDialog } from './execute-dialog.tsx';
import { GroupDialog } from './group-dialog.tsx';
import {
  FactLine,
  RecoveryFrame,
  PlanState,
  Reached,
  RecoveryState,
  RESTORE_NAMES,
} from './recovery-frame.tsx';
import { PlanDialog, notExecutable, sizeText } from './plans-page.tsx';

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
      icon={IconPlus}
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
            icon={IconPencil}
            onClick={() => setOpened({ what: 'plan' })}
          >
            Change
          </Action>
          <ConfirmAction
            variant="default"
            refusal={
              write ?? (plan.failedOver.length > 0 ? 'Devices have failed over: fail back first.' : undefined)
            }
            icon={IconTrash}
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
            icon={IconPlayerPlay}
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
              <TextLink
                inherit
                underline="always"
                to="/recovery/executions/$executionId"
                params={{ executionId: lastExecution.id }}
              >
                <When at={lastExecution.finishedAt ?? lastExecution.createdAt} />
              </TextLink>
              <TextLink inherit to="/recovery/executions" search={{ plan: id }}>
                All of this plan
              </TextLink>
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

/** The estimated time of a plan: the longest of the groups that run together counts. */
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

/** One group of a plan: what is restored where, and how it is checked. */
function GroupPanel({
  group,
  plan,
  refusal,
  onChange,
}: {
  group: RecoveryGroup;
  plan: RecoveryPlanDetail;
  refusal: string | undefined;
  onChange: () => void;
}) {
  const remove = useApiChange('DELETE /dr/plans/{id}/groups/{groupId}', {
    refreshes: ['GET /dr/plans/{id}', 'GET /dr/plans'],
  });
  const { id, name, sequence, dependsOnGroupId, estimatedDurationMinutes, devices } = group;
  const before = plan.groups.find((one) => one.id === dependsOnGroupId);
  const dependents = plan.groups.filter((one) => one.dependsOnGroupId === id).map((one) => one.name);
  const isNeeded =
    dependents.length === 0 ? undefined : `Other groups wait for it: ${dependents.join(', ')}.`;
  const notes = [
    before === undefined ? undefined : `waits for ${before.name}`,
    estimatedDurationMinutes === null
      ? undefined
      : `about ${formatDuration(estimatedDurationMinutes * 60_000)}`,
  ].filter((note) => note !== undefined);
  return (
    <Panel
      title={name}
      label={`Group ${name}`}
      aside={
        <Group gap={8}>
          {notes.length > 0 && (
            <Text size="xs" c="dimmed">
              {notes.join(' · ')}
            </Text>
          )}
          <Badge variant="default" radius="sm" tt="none" fw={500}>
            Number {sequence}
          </Badge>
          <Action inRow refusal={refusal} onClick={onChange}>
            Change
          </Action>
          <ConfirmAction
            inRow
            refusal={refusal ?? isNeeded}
            title={`Remove “${name}”`}
            question="Its devices are not part of the plan any more. Nothing happens to the devices themselves."
            confirm="Remove"
            run={() => remove.mutateAsync({ params: { id: plan.id, groupId: id } })}
          >
            Remove
          </ConfirmAction>
        </Group>
      }
    >
      <PagedTable
        label={`Devices of the group ${name}`}
        rows={devices}
        keyOf={({ deviceId, restore }) =>
          restore.type === 'files' ? deviceId : `${deviceId} ${restore.machine ?? ''}`
        }
        columns={[
          {
            header: 'Device',
            isName: true,
            width: '20%',
            cell: ({ deviceId }) => <DeviceLink id={deviceId} />,
          },
          {
            header: 'Restored to',
            width: '20%',
            cell: ({ deviceId, targetDeviceId }) =>
              targetDeviceId === undefined || targetDeviceId === deviceId ? (
                'Itself'
              ) : (
                <DeviceLink id={targetDeviceId} />
              ),
          },
          { header: 'As', width: '30%', cell: ({ restore }) => <RestoreText restore={restore} /> },
          {
            header: 'Checks',
            cell: ({ checks }) => <Checks checks={checks} group={group} refusal={refusal} />,
          },
        ]}
      />
    </Panel>
  );
}

function RestoreText({ restore }: { restore: RecoveryDevice['restore'] }) {
  const detail =
    restore.type === 'files'
      ? (restore.selectedPaths?.join(', ') ?? 'Everything')
      : [
          restore.machine === undefined ? undefined : `its guest ${restore.machine}`,
          restore.vmName,
          restore.memoryMb === undefined ? undefined : `${restore.memoryMb} MB`,
          restore.cpuCount === undefined ? undefined : `${restore.cpuCount} processors`,
        ]
          .filter((part) => part !== undefined)
          .join(', ');
  return (
    <>
      {RESTORE_NAMES[restore.type]}
      {detail !== '' && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
          {detail}
        </Text>
      )}
    </>
  );
}

function Checks({
  checks,
  group,
  refusal,
}: Pick<RecoveryDevice, 'checks'> & { group: RecoveryGroup; refusal: string | undefined }) {
  if (checks.length === 0) return 'None: it counts as working when it is restored.';
  return (
    <Stack gap={0}>
      {checks.map((check) => {
        const script =
          check.type === 'script'
            ? group.scripts.find(({ scriptId }) => scriptId === check.scriptId)
            : undefined;
        return (
          <div key={JSON.stringify(check)} style={{ overflowWrap: 'anywhere' }}>
            {checkText(check, script)}
            {script?.scriptHasChanged === true && (
              <ChangedScript script={script} group={group} refusal={refusal} />
            )}
          </div>
        );
      })}
    </Stack>
  );
}

function ChangedScript({
  script: { scriptId, scriptName },
  group: { id, planId },
  refusal,
}: {
  script: RecoveryScript;
  group: RecoveryGroup;
  refusal: string | undefined;
}) {
  const mayNotRun = useRefusal('scripts:execute');
  const take = useApiChange('PATCH /dr/plans/{id}/groups/{groupId}', { refreshes: ['GET /dr/plans/{id}'] });
  return (
    <Group gap={4}>
      <Text size="xs" fw={500}>
        The script has changed since it was chosen.
      </Text>
      <ConfirmAction
        inRow
        refusal={refusal ?? mayNotRun}
        title={`Take the new version of “${scriptName ?? 'the script'}”`}
        question="All checks of this group by this script then run what it holds now. Read it before: it runs with the rights of the agent."
        confirm="Take the new version"
        run={() =>
          take.mutateAsync({ params: { id: planId, groupId: id }, body: { repinScripts: [scriptId] } })
        }
      >
        Take the new version
      </ConfirmAction>
    </Group>
  );
}

/** "Port 5432 answers", "https on port 443 answers at /health". */
function checkText(check: RecoveryCheck, script: RecoveryScript | undefined): string {
  if (check.type === 'script') return `Script ${script?.scriptName ?? 'that was deleted'}`;
  const at = check.host === undefined ? '' : ` of ${check.host}`;
  if (check.type === 'tcp') return `Port ${check.port}${at} answers`;
  const status = check.expectStatus === undefined ? '' : ` with ${check.expectStatus}`;
  return `${check.secure ? 'https' : 'http'} on port ${check.port}${at} answers at ${check.path}${status}`;
}
