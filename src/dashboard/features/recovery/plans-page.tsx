import { Group, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { scheduleFormOf, ScheduleFields, scheduleOf, timeZone } from '../backup/index.ts';
import { type RecoveryPlan, useList, useApiChange } from '../../api/index.ts';
import { useNames, useFirstOrganization, useOrganizationChoice } from '../../directory.ts';
import { useLiveWork } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  formatCounted,
  formatWord,
  NameCell,
  StateBadge,
  When,
  TextLink,
  ListPage,
  useAddress,
  FormDialog,
  useForm,
} from '../../ui/index.ts';
import { ExecuteDialog } from './execute-dialog.tsx';
import { RecoveryFrame, PlanState, Reached, RecoveryState } from './recovery-frame.tsx';

const route = getRouteApi('/signed-in/recovery');

/** Plans for the day on which everything is gone, and how well the last rehearsals went. */
export function PlansPage() {
  const address = useAddress(route.useSearch());
  const { status, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const write = useRefusal('recovery:write');
  const execute = useRefusal('recovery:execute');
  const [isNew, setNew] = useState(false);
  const [executed, setExecuted] = useState<RecoveryPlan>();
  const plans = useList('GET /dr/plans', { query: { orgId, status, page: String(page) } });
  useLiveWork('dr', orgId, ['GET /dr/plans']);
  const newPlan = (
    <Action refusal={write} icon={IconPlus} onClick={() => setNew(true)}>
      New plan
    </Action>
  );
  return (
    <ListPage
      frame={RecoveryFrame}
      title="Recovery"
      description="Which devices are restored in which order when a disaster has struck, and whether that works."
      actions={newPlan}
      query={plans}
      noun="plans"
      label="Recovery plans"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        {
          kind: 'choice',
          name: 'status',
          label: 'State',
          any: 'Any state',
          options: ['draft', 'active', 'archived'],
        },
      ]}
      empty={{
        title: 'No recovery plans',
        text: 'A plan says in which order devices are restored, and how it is checked that they work. A rehearsal tries it in isolated places and takes everything down again, so you know beforehand how long it takes.',
        action: newPlan,
      }}
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
            <Action inRow refusal={execute ?? notExecutable(plan)} onClick={() => setExecuted(plan)}>
              Execute …
            </Action>
          ),
        },
      ]}
    >
      {isNew && <PlanDialog plan={undefined} onClose={() => setNew(false)} />}
      {executed !== undefined && (
        <ExecuteDialog planId={executed.id} name={executed.name} onClose={() => setExecuted(undefined)} />
      )}
    </ListPage>
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
          <TextLink
            size="xs"
            underline="always"
            to="/recovery/executions/$executionId"
            params={{ executionId: shown.id }}
          >
            {open === undefined ? (
              <When at={lastRehearsal?.finishedAt} />
            ) : (
              `${formatWord(open.executionType)} now`
            )}
          </TextLink>
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

const READS = ['GET /dr/plans', 'GET /dr/plans/{id}'] as const;
const STATUSES = [
  { value: 'draft', label: 'Draft: still being written' },
  { value: 'active', label: 'Active: what is done when a disaster has struck' },
  { value: 'archived', label: 'Archived: is not executed any more' },
] as const;

/** Makes a plan, or changes what is said of it as a whole. Its groups are on its page. */
export function PlanDialog({ plan, onClose }: { plan: RecoveryPlan | undefined; onClose: () => void }) {
  const navigate = useNavigate();
  const first = useFirstOrganization();
  const organization = useOrganizationChoice();
  const form = useForm(() => ({
    ...scheduleFormOf(plan?.rehearsalSchedule ?? null),
    orgId: plan?.orgId,
    name: plan?.name ?? '',
    description: plan?.description ?? null,
    rtoTargetMinutes: plan?.rtoTargetMinutes ?? null,
    rpoTargetMinutes: plan?.rpoTargetMinutes ?? null,
    status: plan?.status ?? ('draft' as const),
  }));
  const create = useApiChange('POST /dr/plans', { refreshes: READS });
  const patch = useApiChange('PATCH /dr/plans/{id}', { refreshes: READS });
  const { orgId = first, name, description, rtoTargetMinutes, rpoTargetMinutes, status } = form.values;
  const submit = async () => {
    const schedule = scheduleOf(form.values);
    const timezone = plan?.rehearsalSchedule?.timezone ?? (plan?.rehearsalSchedule ? 'UTC' : timeZone());
    const body = {
      name,
      description,
      rtoTargetMinutes,
      rpoTargetMinutes,
      status,
      rehearsalSchedule: schedule === null ? null : { ...schedule, timezone },
    };
    if (plan !== undefined) return patch.mutateAsync({ params: { id: plan.id }, body });
    const { id } = await create.mutateAsync({ body: { ...body, ...(orgId === undefined ? {} : { orgId }) } });
    return navigate({ to: '/recovery/plans/$planId', params: { planId: id } });
  };
  const minutes = {
    kind: 'number',
    placeholder: 'No target',
    suffix: ' min',
    min: 1,
    max: 525_600,
    empty: null,
  } as const;
  return (
    <FormDialog
      title={plan === undefined ? 'New recovery plan' : `Change “${plan.name}”`}
      size="lg"
      onClose={onClose}
      submitLabel={plan === undefined ? 'Make the plan' : 'Save'}
      submit={submit}
      form={form}
      fields={[
        plan === undefined && organization && { name: 'orgId', ...organization, shown: orgId },
        { name: 'name', label: 'Name', required: true },
        { name: 'description', kind: 'area', label: 'Description', empty: null },
        [
          {
            name: 'rtoTargetMinutes',
            label: 'Time to recover at most (RTO)',
            description: 'Until everything works again.',
            ...minutes,
          },
          {
            name: 'rpoTargetMinutes',
            label: 'Age of the data at most (RPO)',
            description: 'What was changed since then is lost.',
            ...minutes,
          },
        ],
        { name: 'status', kind: 'choice', label: 'State', options: STATUSES },
      ]}
    >
      {(faults) => (
        <ScheduleFields
          form={form.values}
          set={form.set}
          faults={Object.fromEntries(
            Object.entries(faults).map(([path, rule]) => [
              path.replace(/^rehearsalSchedule/, 'schedule'),
              rule,
            ]),
          )}
          description="When rehearsals begin by themselves."
        />
      )}
    </FormDialog>
  );
}
