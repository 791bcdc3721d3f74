import { Checkbox, MultiSelect, NumberInput, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type BackupSlaConfig } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { deviceName, useDevices } from '../parts/device-names.tsx';
import { OrganizationSelect, useFirstOrganization } from '../parts/organization-select.tsx';

const MINUTES_OF_HOUR = 60;
const HOURS_OF_YEAR = 8760;
const BEGIN = {
  name: '',
  rpoTargetMinutes: 24 * MINUTES_OF_HOUR,
  rtoTargetMinutes: 4 * MINUTES_OF_HOUR,
  targetDevices: [] as string[],
  targetGroups: [] as string[],
  alertOnBreach: true,
  isActive: true,
};
const TARGETS = [
  {
    name: 'rpoTargetMinutes',
    label: 'The newest snapshot is at most so old (hours)',
    description: 'The recovery point objective (RPO): how much work may be lost.',
  },
  {
    name: 'rtoTargetMinutes',
    label: 'A restore takes at most so long (hours)',
    description: 'The recovery time objective (RTO), by the estimate from the restores so far.',
  },
] as const;
const SWITCHES = [
  { name: 'alertOnBreach', label: 'Raise an alert about a breach' },
  { name: 'isActive', label: 'Active' },
] as const;

/** Makes an SLA, or changes one. */
export function SlaDialog({ sla, onClose }: { sla: BackupSlaConfig | undefined; onClose: () => void }) {
  const first = useFirstOrganization();
  const [chosen, setOrg] = useState(sla?.orgId);
  const orgId = chosen ?? first;
  const [form, setForm] = useState(() => (sla === undefined ? BEGIN : formOf(sla)));
  const set = (change: Partial<typeof form>) => setForm((before) => ({ ...before, ...change }));
  const devices = useDevices(orgId);
  const groups = useQuery(apiQuery('GET /groups', { query: { orgId, limit: '100' } }));
  const refreshes = ['GET /backup/sla/configs', 'GET /backup/sla/events'] as const;
  const create = useApiChange('POST /backup/sla/configs', { refreshes });
  const patch = useApiChange('PATCH /backup/sla/configs/{id}', { refreshes });
  return (
    <FormDialog
      title={sla === undefined ? 'New SLA' : `Change “${sla.name}”`}
      opened
      onClose={onClose}
      submitLabel={sla === undefined ? 'Create SLA' : 'Save'}
      submit={() =>
        sla === undefined
          ? create.mutateAsync({ body: { orgId: orgId ?? '', ...form } })
          : patch.mutateAsync({ params: { id: sla.id }, body: form })
      }
    >
      {(faults) => (
        <>
          {sla === undefined && (
            <OrganizationSelect
              value={orgId}
              onChange={(next) => {
                setOrg(next);
                set({ targetDevices: [], targetGroups: [] });
              }}
              error={faults['orgId']}
            />
          )}
          <TextInput
            label="Name"
            required
            maxLength={200}
            value={form.name}
            onChange={(event) => set({ name: event.currentTarget.value })}
            error={faults['name']}
            data-autofocus
          />
          {TARGETS.map(({ name, label, description }) => (
            <NumberInput
              key={name}
              label={label}
              description={description}
              required
              min={0}
              max={HOURS_OF_YEAR}
              decimalScale={2}
              value={form[name] / MINUTES_OF_HOUR}
              onChange={(hours) => set({ [name]: Math.round(Number(hours) * MINUTES_OF_HOUR) })}
              error={faults[name]}
            />
          ))}
          <MultiSelect
            label="Devices"
            description="Without devices and groups: all devices that are backed up."
            searchable
            limit={100}
            data={devices.map((device) => ({ value: device.id, label: deviceName(device) }))}
            value={form.targetDevices}
            onChange={(targetDevices) => set({ targetDevices })}
            error={faultOf(faults, 'targetDevices')}
          />
          <MultiSelect
            label="Groups"
            searchable
            data={(groups.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
            value={form.targetGroups}
            onChange={(targetGroups) => set({ targetGroups })}
            error={faultOf(faults, 'targetGroups')}
          />
          {SWITCHES.map(({ name, label }) => (
            <Checkbox
              key={name}
              label={label}
              checked={form[name]}
              onChange={(event) => set({ [name]: event.currentTarget.checked })}
            />
          ))}
        </>
      )}
    </FormDialog>
  );
}

const formOf = ({
  name,
  rpoTargetMinutes,
  rtoTargetMinutes,
  targetDevices,
  targetGroups,
  alertOnBreach,
  isActive,
}: BackupSlaConfig): typeof BEGIN => ({
  name,
  rpoTargetMinutes,
  rtoTargetMinutes,
  targetDevices,
  targetGroups,
  alertOnBreach,
  isActive,
});

/** The rule that a list or one of its items breaks. */
const faultOf = (faults: Record<string, string>, field: string): string | undefined =>
  Object.entries(faults).find(([path]) => path === field || path.startsWith(`${field}.`))?.[1];
