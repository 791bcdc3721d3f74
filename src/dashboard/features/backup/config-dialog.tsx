import {
  Checkbox,
  Group,
  Radio,
  Stack,
  Tabs,
  TextInput,
  MultiSelect,
  Select,
  Text,
  PasswordInput,
  NumberInput,
  SimpleGrid,
} from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useApiChange, type BackupConfig, apiQuery } from '../../api/index.ts';
import { useFirstOrganization } from '../../directory.ts';
import { FormDialog, TIME_ZONES } from '../../ui/index.ts';
import { OrganizationSelect, deviceName, useDevices, KeySelect } from './selects.tsx';
import {
  formOf,
  newConfig,
  patchOf,
  type ConfigForm,
  type Provider,
  type PartProps,
  KEPT,
  type Kept,
} from './config-form.ts';
import { ScheduleFields } from './schedule.tsx';
import { SourceFields } from './source-fields.tsx';

const PROVIDERS: readonly { value: Provider; label: string; description: string }[] = [
  { value: 'server', label: 'This server', description: 'Muster keeps the data. A device cannot delete it.' },
  { value: 's3', label: 'Bucket (S3)', description: 'A bucket of the customer, written to by the devices.' },
  { value: 'local', label: 'Path of the device', description: 'A disk or a share that the device reaches.' },
];

/** Makes a configuration, or changes one. */
export function ConfigDialog({ config, onClose }: { config: BackupConfig | undefined; onClose: () => void }) {
  const first = useFirstOrganization();
  const [chosen, setForm] = useState(() => formOf(config));
  // Not in the state: the organizations may still be loading when the dialog opens.
  const form = { ...chosen, orgId: chosen.orgId ?? first };
  const set = (change: Partial<ConfigForm>) => setForm((before) => ({ ...before, ...change }));
  const refreshes = ['GET /backup/configs', 'GET /backup/dashboard'] as const;
  const create = useApiChange('POST /backup/configs', { refreshes });
  const patch = useApiChange('PATCH /backup/configs/{id}', { refreshes });
  return (
    <FormDialog
      title={config === undefined ? 'New configuration' : `Change “${config.name}”`}
      size="lg"
      opened
      onClose={onClose}
      submitLabel={config === undefined ? 'Make the configuration' : 'Save'}
      submit={() =>
        config === undefined
          ? create.mutateAsync({ body: newConfig(form) })
          : patch.mutateAsync({ params: { id: config.id }, body: patchOf(form) })
      }
    >
      {(faults) => {
        const part = { form, set, faults };
        const fault = (...fields: string[]) =>
          Object.keys(faults).some((path) => fields.some((field) => path.startsWith(field))) && (
            <IconAlertTriangle size={14} role="img" aria-label="has a fault" />
          );
        return (
          <Tabs defaultValue="place" keepMounted={false}>
            <Tabs.List mb="sm" aria-label="Parts of the configuration">
              <Tabs.Tab value="place">Name and place</Tabs.Tab>
              <Tabs.Tab value="what" rightSection={fault('sources')}>
                What
              </Tabs.Tab>
              <Tabs.Tab value="when" rightSection={fault('schedule', 'retention')}>
                When and how long
              </Tabs.Tab>
              <Tabs.Tab value="devices" rightSection={fault('targets', 'limits')}>
                Devices
              </Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="place">
              <Stack gap="sm">
                {config === undefined && (
                  <OrganizationSelect
                    value={form.orgId}
                    onChange={(orgId) =>
                      set({
                        orgId,
                        encryptionKeyId: undefined,
                        deviceIds: [],
                        groupIds: [],
                        filterId: undefined,
                      })
                    }
                    error={faults['orgId']}
                  />
                )}
                <TextInput
                  label="Name"
                  required
                  value={form.name}
                  onChange={(event) => set({ name: event.currentTarget.value })}
                  error={faults['name']}
                  data-autofocus
                />
                {config === undefined && (
                  <>
                    <Radio.Group
                      label="Where the data goes"
                      value={form.provider}
                      onChange={(value) =>
                        set({ provider: PROVIDERS.find((one) => one.value === value)?.value ?? 'server' })
                      }
                    >
                      <Stack gap="xs" mt="xs">
                        {PROVIDERS.map((provider) => (
                          <Radio key={provider.value} {...provider} />
                        ))}
                      </Stack>
                    </Radio.Group>
                    <KeySelect
                      orgId={form.orgId}
                      value={form.encryptionKeyId}
                      onChange={(encryptionKeyId) => set({ encryptionKeyId })}
                      error={faults['encryptionKeyId']}
                    />
                  </>
                )}
                <DestinationFields {...part} hasSecret={config !== undefined} />
                <Group>
                  <Checkbox
                    label="Enabled"
                    checked={form.enabled}
                    onChange={(event) => set({ enabled: event.currentTarget.checked })}
                  />
                  <Checkbox
                    label="Default of the organization"
                    checked={form.isDefault}
                    onChange={(event) => set({ isDefault: event.currentTarget.checked })}
                  />
                </Group>
              </Stack>
            </Tabs.Panel>
            <Tabs.Panel value="what">
              <SourceFields {...part} />
            </Tabs.Panel>
            <Tabs.Panel value="when">
              <Stack gap="sm">
                <ScheduleFields
                  {...part}
                  description="In the time zone of each device’s site, unless one is named."
                />
                {form.frequency !== 'none' && <TimeZoneField {...part} />}
                <RetentionFields {...part} />
              </Stack>
            </Tabs.Panel>
            <Tabs.Panel value="devices">
              <Stack gap="sm">
                <TargetFields {...part} />
                <LimitFields {...part} />
              </Stack>
            </Tabs.Panel>
          </Tabs>
        );
      }}
    </FormDialog>
  );
}

/** Which devices are backed up. Groups and filters are followed as they change. */
function TargetFields({ form, set, faults }: PartProps) {
  const { orgId } = form;
  const devices = useDevices(orgId);
  const groups = useQuery(apiQuery('GET /groups', { query: { orgId, limit: '100' } }));
  const filters = useQuery(apiQuery('GET /filters'));
  return (
    <Stack gap="sm">
      <Text size="sm">Without any, backups of the configuration begin by hand only.</Text>
      <Checkbox
        label="Every device of the organization"
        checked={form.all}
        onChange={(event) => set({ all: event.currentTarget.checked })}
      />
      {!form.all && (
        <>
          <MultiSelect
            label="Devices"
            searchable
            limit={100}
            data={devices.map((device) => ({ value: device.id, label: deviceName(device) }))}
            value={form.deviceIds}
            onChange={(deviceIds) => set({ deviceIds })}
            error={faults['targets.deviceIds']}
          />
          <MultiSelect
            label="Groups"
            searchable
            data={(groups.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
            value={form.groupIds}
            onChange={(groupIds) => set({ groupIds })}
            error={faults['targets.groupIds']}
          />
          <Select
            label="Devices that match a filter"
            searchable
            clearable
            data={(filters.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
            value={form.filterId ?? null}
            onChange={(value) => set({ filterId: value ?? undefined })}
            error={faults['targets.filterId']}
          />
        </>
      )}
    </Stack>
  );
}

/** The time zone of a schedule. One that the browser does not know stays where it is set. */
const TimeZoneField = ({ form: { timezone }, set, faults }: PartProps) => (
  <Select
    label="Time zone"
    placeholder="That of each device’s site"
    searchable
    clearable
    limit={100}
    data={timezone === '' || TIME_ZONES.includes(timezone) ? TIME_ZONES : [timezone, ...TIME_ZONES]}
    value={timezone === '' ? null : timezone}
    onChange={(next) => set({ timezone: next ?? '' })}
    error={faults['schedule.timezone']}
  />
);

const LABELS: Record<Kept, string> = {
  keepLast: 'Newest snapshots',
  keepDaily: 'Days',
  keepWeekly: 'Weeks',
  keepMonthly: 'Months',
  keepYearly: 'Years',
  retentionDays: 'All of so many days',
  immutableDays: 'Immutable for days',
};

function RetentionFields({ form, set, faults }: PartProps) {
  const change = (kind: Kept, value: number | string) => {
    const { [kind]: _, ...others } = form.kept;
    set({ kept: typeof value === 'number' ? { ...others, [kind]: value } : others });
  };
  return (
    <SimpleGrid cols={3} spacing="sm" role="group" aria-label="How many snapshots are kept">
      {KEPT.map((kind) => (
        <NumberInput
          key={kind}
          label={LABELS[kind]}
          min={0}
          allowDecimal={false}
          value={form.kept[kind] ?? ''}
          onChange={(value) => change(kind, value)}
          error={faults[`retention.${kind}`] ?? (kind === 'keepLast' ? faults['retention'] : undefined)}
        />
      ))}
    </SimpleGrid>
  );
}

const LIMITS = [
  { name: 'uploadKiBps', label: 'Upload of a device in KiB a second' },
  { name: 'cpuPercent', label: 'Percent of its processors' },
] as const;

/** The limits on the resources of the device that a backup may use. */
function LimitFields({ form, set, faults }: PartProps) {
  return (
    <SimpleGrid cols={2} spacing="sm" role="group" aria-label="What a backup may take of its device">
      {LIMITS.map(({ name, label }) => (
        <NumberInput
          key={name}
          label={label}
          description="Empty: no limit."
          allowDecimal={false}
          value={form[name] ?? ''}
          onChange={(value) => set({ [name]: typeof value === 'number' ? value : undefined })}
          error={faults[`limits.${name}`]}
        />
      ))}
    </SimpleGrid>
  );
}

const FIELDS = [
  { name: 'bucket', label: 'Bucket', required: true },
  { name: 'region', label: 'Region', required: false },
  { name: 'endpoint', label: 'Address of the service (of another service than Amazon’s)', required: false },
  { name: 'prefix', label: 'Folder in the bucket', required: false },
  { name: 'accessKey', label: 'Access key', required: true },
] as const;

function DestinationFields({ form, set, faults, hasSecret }: PartProps & { hasSecret: boolean }) {
  if (form.provider === 'server') return null;
  if (form.provider === 'local') {
    return (
      <TextInput
        label="Folder, as the device sees it"
        description="Each device has a folder of its own in it."
        required
        value={form.path}
        onChange={(event) => set({ path: event.currentTarget.value })}
        error={faults['details.path']}
      />
    );
  }
  return (
    <>
      {FIELDS.map(({ name, label, required }) => (
        <TextInput
          key={name}
          label={label}
          required={required}
          value={form[name]}
          onChange={(event) => set({ [name]: event.currentTarget.value })}
          error={faults[`details.${name}`]}
        />
      ))}
      <PasswordInput
        label="Secret key"
        required={!hasSecret}
        {...(hasSecret ? { description: 'Empty: the stored one stays.' } : {})}
        autoComplete="off"
        value={form.secretKey}
        onChange={(event) => set({ secretKey: event.currentTarget.value })}
        error={faults['details.secretKey']}
      />
    </>
  );
}
