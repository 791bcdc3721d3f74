import {
  Checkbox,
  Group,
  Input,
  NumberInput,
  Radio,
  Select,
  Stack,
  Tabs,
  Textarea,
  TextInput,
} from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useState } from 'react';
import {
  useApiChange,
  type CloudBackupConfig,
  type CloudConnection,
  type Input as ApiInput,
} from '../../api/index.ts';
import { ChipChoice, FormDialog, TIME_ZONES } from '../../ui/index.ts';
import {
  KeySelect,
  ScheduleFields,
  scheduleFormOf,
  scheduleOf,
  timeZone,
  type ScheduleForm,
} from '../backup/index.ts';
import { KIND_NAMES, KINDS, type Kind } from './cloud-frame.tsx';

const READS = ['GET /c2c/configs', 'GET /c2c/configs/{id}'] as const;
const TABS = [
  {
    value: 'what',
    label: 'What and whose',
    fields: ['name', 'connectionId', 'encryptionKeyId', 'backupScope', 'targetUsers'],
  },
  { value: 'when', label: 'When and how long', fields: ['schedule', 'retention'] },
] as const;

/** Makes a configuration, or changes one. */
export function CloudConfigDialog({
  config,
  connections,
  onClose,
}: {
  config: CloudBackupConfig | undefined;
  connections: readonly CloudConnection[];
  onClose: () => void;
}) {
  const [only] = connections.length === 1 ? connections : [];
  const [form, setForm] = useState(() => formOf(config, only?.id));
  const set = (change: Partial<CloudForm>) => setForm((before) => ({ ...before, ...change }));
  const create = useApiChange('POST /c2c/configs', { refreshes: READS });
  const patch = useApiChange('PATCH /c2c/configs/{id}', { refreshes: READS });
  const orgId = connections.find(({ id }) => id === form.connectionId)?.orgId;
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
      {(faults) => (
        <Tabs defaultValue="what" keepMounted={false}>
          <Tabs.List mb="sm" aria-label="Parts of the configuration">
            {TABS.map(({ value, label, fields }) => (
              <Tabs.Tab
                key={value}
                value={value}
                rightSection={
                  Object.keys(faults).some((path) => fields.some((field) => path.startsWith(field))) && (
                    <IconAlertTriangle size={14} role="img" aria-label="has a fault" />
                  )
                }
              >
                {label}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          <Tabs.Panel value="what">
            <Stack gap="sm">
              <TextInput
                label="Name"
                required
                value={form.name}
                onChange={(event) => set({ name: event.currentTarget.value })}
                error={faults['name']}
                data-autofocus
              />
              {config === undefined && (
                <Group grow align="flex-start">
                  <Select
                    label="Connection"
                    description="The directory whose users are backed up."
                    required
                    data={connections.map(({ id, displayName }) => ({ value: id, label: displayName }))}
                    value={form.connectionId ?? null}
                    onChange={(value) =>
                      set({ connectionId: value ?? undefined, encryptionKeyId: undefined })
                    }
                    error={faults['connectionId']}
                  />
                  <KeySelect
                    orgId={orgId}
                    value={form.encryptionKeyId}
                    onChange={(encryptionKeyId) => set({ encryptionKeyId })}
                    error={faults['encryptionKeyId']}
                  />
                </Group>
              )}
              <Input.Wrapper
                label="What is backed up"
                labelElement="div"
                error={faults['backupScope']}
                {...(form.backupScope.length === 0 ? { description: 'Choose at least one.' } : {})}
              >
                <ChipChoice
                  label="What is backed up"
                  values={KINDS}
                  nameOf={(kind) => KIND_NAMES[kind]}
                  chosen={form.backupScope}
                  onChange={(backupScope) => set({ backupScope })}
                />
              </Input.Wrapper>
              <UserFields form={form} set={set} faults={faults} />
              <Checkbox
                label="Enabled"
                description="Switched off, it makes no backups by its schedule. Its items stay."
                checked={form.enabled}
                onChange={(event) => set({ enabled: event.currentTarget.checked })}
              />
            </Stack>
          </Tabs.Panel>
          <Tabs.Panel value="when">
            <Stack gap="sm">
              <ScheduleFields
                form={form}
                set={set}
                faults={faults}
                description="A run that brings little takes a few seconds for each user."
              />
              {form.frequency !== 'none' && (
                <Select
                  label="Time zone"
                  searchable
                  allowDeselect={false}
                  limit={100}
                  data={TIME_ZONES}
                  value={form.timezone}
                  onChange={(value) => set({ timezone: value ?? 'UTC' })}
                  error={faults['schedule.timezone']}
                />
              )}
              <RetentionFields form={form} set={set} faults={faults} />
            </Stack>
          </Tabs.Panel>
        </Tabs>
      )}
    </FormDialog>
  );
}

interface PartProps {
  form: CloudForm;
  set: (change: Partial<CloudForm>) => void;
  faults: Record<string, string>;
}

function UserFields({ form, set, faults }: PartProps) {
  const fault = Object.entries(faults).find(([path]) => path.startsWith('targetUsers'))?.[1];
  return (
    <>
      <Radio.Group
        label="Whose"
        value={form.allUsers ? 'all' : 'some'}
        onChange={(value) => set({ allUsers: value === 'all' })}
      >
        <Stack gap="xs" mt="xs">
          <Radio value="all" label="Every user of the directory" description="Also those who come later." />
          <Radio value="some" label="Some users" />
        </Stack>
      </Radio.Group>
      {!form.allUsers && (
        <Textarea
          label="Addresses"
          description="One on each line, at most 1,000."
          required
          autosize
          minRows={3}
          maxRows={8}
          placeholder={'ada@example.com\ngrace@example.com'}
          value={form.users}
          onChange={(event) => set({ users: event.currentTarget.value })}
          error={fault}
        />
      )}
    </>
  );
}

function RetentionFields({ form, set, faults }: PartProps) {
  const field = (name: 'keepDays' | 'keepVersions', label: string, description: string, max: number) => (
    <NumberInput
      label={label}
      description={description}
      placeholder="For ever"
      min={1}
      max={max}
      allowDecimal={false}
      value={form[name] ?? ''}
      onChange={(value) => set({ [name]: typeof value === 'number' ? value : undefined })}
      error={faults[`retention.${name}`]}
    />
  );
  return (
    <Group grow align="flex-start" role="group" aria-label="How long items are kept">
      {field('keepDays', 'Kept for days', 'Of deleted items and replaced contents.', 3650)}
      {field('keepVersions', 'Kept contents of an item', 'The newest ones, with the one of now.', 1000)}
    </Group>
  );
}

/** The values of the dialog of a configuration, and their conversion to requests of the API. */

type NewConfig = ApiInput<'POST /c2c/configs'>['body'];
type ConfigPatch = ApiInput<'PATCH /c2c/configs/{id}'>['body'];

interface CloudForm extends ScheduleForm {
  name: string;
  connectionId: string | undefined;
  encryptionKeyId: string | undefined;
  backupScope: Kind[];
  allUsers: boolean;
  /** One address a line, or separated by commas. */
  users: string;
  timezone: string;
  keepDays: number | undefined;
  keepVersions: number | undefined;
  enabled: boolean;
}

const formOf = (config: CloudBackupConfig | undefined, connectionId?: string): CloudForm => ({
  ...scheduleFormOf(config?.schedule),
  name: config?.name ?? '',
  connectionId: config?.connectionId ?? connectionId,
  encryptionKeyId: config?.encryptionKeyId,
  backupScope: config?.backupScope ?? ['mail', 'calendar', 'contacts', 'onedrive'],
  allUsers: config?.allUsers ?? true,
  users: (config?.targetUsers ?? []).join('\n'),
  timezone: config === undefined ? timeZone() : (config.schedule?.timezone ?? 'UTC'),
  keepDays: config === undefined ? 365 : config.retention.keepDays,
  keepVersions: config?.retention.keepVersions,
  enabled: config?.enabled ?? true,
});

const usersIn = (text: string): string[] =>
  text
    .split(/[\s,;]+/)
    .map((address) => address.trim())
    .filter((address) => address !== '');

/** Fields that may be changed afterwards. */
function patchOf(form: CloudForm): ConfigPatch {
  const { keepDays, keepVersions } = form;
  const schedule = scheduleOf(form);
  return {
    name: form.name,
    backupScope: form.backupScope,
    allUsers: form.allUsers,
    targetUsers: form.allUsers ? [] : usersIn(form.users),
    schedule: schedule === null ? null : { ...schedule, timezone: form.timezone },
    retention: {
      ...(keepDays === undefined ? {} : { keepDays }),
      ...(keepVersions === undefined ? {} : { keepVersions }),
    },
    enabled: form.enabled,
  };
}

const newConfig = (form: CloudForm): NewConfig => ({
  ...patchOf(form),
  name: form.name,
  backupScope: form.backupScope,
  connectionId: form.connectionId ?? '',
  encryptionKeyId: form.encryptionKeyId ?? '',
});

/** "Every user", "3 users". */
export const usersText = ({ allUsers, targetUsers }: CloudBackupConfig): string =>
  allUsers ? 'Every user' : `${targetUsers.length} ${targetUsers.length === 1 ? 'user' : 'users'}`;
