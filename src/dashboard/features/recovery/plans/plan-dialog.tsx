import { NumberInput, Select, SimpleGrid, Textarea, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, type RecoveryPlan } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import {
  OrganizationSelect,
  scheduleFormOf,
  ScheduleFields,
  scheduleOf,
  timeZone,
  useFirstOrganization,
} from '../../backup/index.ts';

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
  const [org, setOrg] = useState<string>();
  const [form, setForm] = useState(() => ({
    ...scheduleFormOf(plan?.rehearsalSchedule ?? null),
    name: plan?.name ?? '',
    description: plan?.description ?? '',
    rto: plan?.rtoTargetMinutes ?? undefined,
    rpo: plan?.rpoTargetMinutes ?? undefined,
    status: plan?.status ?? ('draft' as const),
  }));
  const set = (change: Partial<typeof form>) => setForm((before) => ({ ...before, ...change }));
  const create = useApiChange('POST /dr/plans', { refreshes: READS });
  const patch = useApiChange('PATCH /dr/plans/{id}', { refreshes: READS });
  const orgId = org ?? first;
  const submit = async () => {
    const schedule = scheduleOf(form);
    const timezone = plan?.rehearsalSchedule?.timezone ?? (plan?.rehearsalSchedule ? 'UTC' : timeZone());
    const body = {
      name: form.name,
      description: form.description.trim() === '' ? null : form.description,
      rtoTargetMinutes: form.rto ?? null,
      rpoTargetMinutes: form.rpo ?? null,
      status: form.status,
      rehearsalSchedule: schedule === null ? null : { ...schedule, timezone },
    };
    if (plan !== undefined) return patch.mutateAsync({ params: { id: plan.id }, body });
    const { id } = await create.mutateAsync({ body: { ...body, ...(orgId === undefined ? {} : { orgId }) } });
    return navigate({ to: '/recovery/plans/$planId', params: { planId: id } });
  };
  const minutes = (
    name: 'rto' | 'rpo',
    field: string,
    label: string,
    description: string,
    fault?: string,
  ) => (
    <NumberInput
      key={field}
      label={label}
      description={description}
      placeholder="No target"
      suffix=" min"
      min={1}
      max={525_600}
      allowDecimal={false}
      value={form[name] ?? ''}
      onChange={(value) => set({ [name]: typeof value === 'number' ? value : undefined })}
      error={fault}
    />
  );
  return (
    <FormDialog
      title={plan === undefined ? 'New recovery plan' : `Change “${plan.name}”`}
      size="lg"
      opened
      onClose={onClose}
      submitLabel={plan === undefined ? 'Make the plan' : 'Save'}
      submit={submit}
    >
      {(faults) => (
        <>
          {plan === undefined && (
            <OrganizationSelect value={orgId} onChange={setOrg} error={faults['orgId']} />
          )}
          <TextInput
            label="Name"
            required
            value={form.name}
            onChange={(event) => set({ name: event.currentTarget.value })}
            error={faults['name']}
            data-autofocus
          />
          <Textarea
            label="Description"
            autosize
            minRows={2}
            maxRows={6}
            value={form.description}
            onChange={(event) => set({ description: event.currentTarget.value })}
            error={faults['description']}
          />
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            {minutes(
              'rto',
              'rtoTargetMinutes',
              'Time to recover at most (RTO)',
              'Until everything works again.',
              faults['rtoTargetMinutes'],
            )}
            {minutes(
              'rpo',
              'rpoTargetMinutes',
              'Age of the data at most (RPO)',
              'What was changed since then is lost.',
              faults['rpoTargetMinutes'],
            )}
          </SimpleGrid>
          <Select
            label="State"
            allowDeselect={false}
            data={STATUSES}
            value={form.status}
            onChange={(value) =>
              set({ status: STATUSES.find((one) => one.value === value)?.value ?? 'draft' })
            }
            error={faults['status']}
          />
          <ScheduleFields
            form={form}
            set={set}
            faults={Object.fromEntries(
              Object.entries(faults).map(([path, rule]) => [
                path.replace(/^rehearsalSchedule/, 'schedule'),
                rule,
              ]),
            )}
            description="When rehearsals begin by themselves."
          />
        </>
      )}
    </FormDialog>
  );
}
