import { Checkbox, Group, Radio, Stack, Tabs, TextInput } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useState } from 'react';
import { useApiChange, type BackupConfig } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { OrganizationSelect, useFirstOrganization } from '../parts/organization-select.tsx';
import { formOf, newConfig, patchOf, type ConfigForm, type Provider } from './config-form.ts';
import { KeySelect } from '../keys/key-select.tsx';
import { ScheduleFields } from '../schedule/schedule-fields.tsx';
import { DestinationFields } from './destination-fields.tsx';
import { LimitFields } from './limit-fields.tsx';
import { RetentionFields } from './retention-fields.tsx';
import { SourceFields } from './sources/source-fields.tsx';
import { TargetFields } from './target-fields.tsx';
import { TimeZoneField } from './time-zone-field.tsx';

const PROVIDERS: readonly { value: Provider; label: string; description: string }[] = [
  { value: 'server', label: 'This server', description: 'Muster keeps the data. A device cannot delete it.' },
  { value: 's3', label: 'Bucket (S3)', description: 'A bucket of the customer, written to by the devices.' },
  { value: 'local', label: 'Path of the device', description: 'A disk or a share that the device reaches.' },
];

/** Makes a configuration, or changes one. */
export function ConfigDialog({ config, onClose }: { config: BackupConfig | undefined; onClose: () => void }) {
  const first = useFirstOrganization();
  const [form, setForm] = useState(() => formOf(config, first));
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
