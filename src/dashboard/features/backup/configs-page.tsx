import { Group, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { z } from 'zod';
import { useApiChange, useList, type BackupConfig } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  Failure,
  formatWord,
  FormDialog,
  ListPage,
  Modal,
  StateBadge,
  TwoLines,
  useAddress,
  useForm,
} from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { ConfigDialog } from './config-dialog.tsx';
import { scheduleText } from './schedule.tsx';
import { countedTargets, BACKUP_TYPE_NAMES, BACKUP_TYPES, type BackupType } from './texts.ts';
import { KIND_NAMES } from './config-form.ts';
import { DeviceSelect } from './selects.tsx';

const route = getRouteApi('/signed-in/backup/configurations');
type Opened =
  | { what: 'edit'; config: BackupConfig | undefined }
  | { what: 'test' | 'run'; config: BackupConfig };

/** The configurations of backups: sources, schedules and destinations. */
export function ConfigsPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const [opened, setOpened] = useState<Opened>();
  const close = () => setOpened(undefined);
  const write = useRefusal('backup:write');
  const configs = useList('GET /backup/configs', {
    query: { orgId, page: String(address.search.page ?? 1) },
  });
  const newConfig = (
    <Action refusal={write} icon={IconPlus} onClick={() => setOpened({ what: 'edit', config: undefined })}>
      New configuration
    </Action>
  );
  return (
    <ListPage
      frame={BackupFrame}
      title="Backup configurations"
      description="What is backed up, when, and where it goes."
      actions={newConfig}
      query={configs}
      noun="configurations"
      label="Backup configurations"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No configurations',
        text: 'A configuration says what is backed up, when, to where, and of which devices.',
        action: newConfig,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ name, isDefault, enabled }) => (
            <Group gap={6}>
              {name}
              {isDefault && <StateBadge tone="info" label="Default" />}
              {!enabled && <StateBadge tone="neutral" label="Switched off" />}
            </Group>
          ),
        },
        { header: 'Organization', cell: (config) => names.organization(config.orgId) },
        { header: 'What', cell: sourceText },
        {
          header: 'Place',
          cell: (config) => (
            <TwoLines below={!config.providerCapabilities.isAppendOnly && 'A device can delete the data.'}>
              {placeText(config)}
            </TwoLines>
          ),
        },
        { header: 'Schedule', cell: ({ schedule }) => scheduleText(schedule) },
        { header: 'Devices', cell: targetText },
        {
          header: 'Actions',
          align: 'right',
          cell: (config) => <ConfigActions config={config} onOpen={setOpened} />,
        },
      ]}
    >
      {opened?.what === 'edit' && <ConfigDialog config={opened.config} onClose={close} />}
      {opened?.what === 'test' && <TestDialog config={opened.config} onClose={close} />}
      {opened?.what === 'run' && <RunDialog config={opened.config} onClose={close} />}
    </ListPage>
  );
}

function ConfigActions({ config, onOpen }: { config: BackupConfig; onOpen: (opened: Opened) => void }) {
  const write = useRefusal('backup:write');
  const execute = useRefusal('backup:execute');
  const deleting = useRefusal('backup:delete');
  const remove = useApiChange('DELETE /backup/configs/{id}', { refreshes: ['GET /backup/configs'] });
  return (
    <Group gap={2} justify="flex-end">
      <Action
        inRow
        refusal={execute ?? (config.enabled ? undefined : 'It is switched off.')}
        onClick={() => onOpen({ what: 'run', config })}
      >
        Run now
      </Action>
      <Action inRow refusal={execute} onClick={() => onOpen({ what: 'test', config })}>
        Test
      </Action>
      <Action inRow refusal={write} onClick={() => onOpen({ what: 'edit', config })}>
        Change
      </Action>
      <ConfirmAction
        inRow
        refusal={deleting}
        title={`Delete “${config.name}”`}
        question="No more backups are made by it. Its snapshots stay, and nothing removes them any more."
        confirm="Delete"
        run={() => remove.mutateAsync({ params: { id: config.id }, query: { keepSnapshots: 'true' } })}
      >
        Delete
      </ConfirmAction>
    </Group>
  );
}

interface Props {
  config: BackupConfig;
  onClose: () => void;
}

/** Tests where the data goes, and shows each check. */
function TestDialog({ config, onClose }: Props) {
  const [deviceId, setDevice] = useState<string>();
  const test = useApiChange('POST /backup/configs/{id}/test');
  const needsDevice = config.provider !== 'server';
  const missing =
    needsDevice && deviceId === undefined ? 'Only devices reach this place: choose one.' : undefined;
  return (
    <Modal opened onClose={onClose} title={`Test “${config.name}”`}>
      <Stack>
        {needsDevice && (
          <DeviceSelect
            label="Device that tests it"
            orgId={config.orgId}
            value={deviceId}
            onChange={setDevice}
          />
        )}
        <div role="status">
          {test.data?.checks.map(({ name, ok, message }) => (
            <Group key={name} gap="xs" mb={4}>
              <StateBadge tone={ok ? 'good' : 'bad'} label={ok ? 'Passed' : 'Failed'} />
              <Text size="sm">
                {formatWord(name)}
                {message === undefined ? '' : `: ${message}`}
              </Text>
            </Group>
          ))}
        </div>
        {test.error !== null && <Failure error={test.error} />}
        <Group justify="flex-end">
          <Action variant="default" onClick={onClose}>
            Close
          </Action>
          <Action
            refusal={missing}
            loading={test.isPending}
            onClick={() =>
              test.mutate({ params: { id: config.id }, body: deviceId === undefined ? {} : { deviceId } })
            }
          >
            Test
          </Action>
        </Group>
      </Stack>
    </Modal>
  );
}

const isOfDatabase = ({ sources: { kind } }: BackupConfig) => kind === 'database' || kind === 'mssql';

/** Backs up one device now, and leads to the job. */
function RunDialog({ config, onClose }: Props) {
  const navigate = useNavigate();
  const form = useForm<{ deviceId: string | undefined; backupType: BackupType | undefined }>({
    deviceId: undefined,
    backupType: undefined,
  });
  const { deviceId = '', backupType } = form.values;
  const run = useApiChange('POST /backup/jobs/run/{deviceId}', { refreshes: ['GET /backup/jobs'] });
  const begin = async () => {
    const body = { configId: config.id, ...(backupType === undefined ? {} : { backupType }) };
    const { id } = await run.mutateAsync({ params: { deviceId }, body });
    await navigate({ to: '/backup/jobs', search: { job: id } });
  };
  return (
    <FormDialog
      title={`Run “${config.name}” now`}
      onClose={onClose}
      submit={begin}
      submitLabel="Back up now"
      refusal={deviceId === '' ? 'Choose a device first.' : undefined}
      form={form}
      fields={[
        {
          name: 'deviceId',
          control: (field) => <DeviceSelect label="Device" orgId={config.orgId} {...field} />,
        },
        isOfDatabase(config) && {
          name: 'backupType',
          kind: 'choice',
          label: 'Type',
          placeholder: 'What the chain needs next',
          description: 'A type that the chain does not allow is refused.',
          options: BACKUP_TYPES.map((value) => ({ value, label: BACKUP_TYPE_NAMES[value] })),
          empty: undefined,
        },
      ]}
    />
  );
}

const Many = z.array(z.string()).catch([]);

/** "Files", "Whole disks", "SQL Server: Sales". */
const sourceText = ({ sources }: BackupConfig): string =>
  sources.kind === 'mssql' ? `${KIND_NAMES.mssql}: ${sources.database}` : KIND_NAMES[sources.kind];

function placeText({ provider, details }: BackupConfig): string {
  if (provider === 'server') return 'This server';
  if ('bucket' in details) return `Bucket ${details.bucket}`;
  return 'path' in details ? `On the device: ${details.path}` : formatWord(provider);
}

function targetText({ targets }: BackupConfig): string {
  if (targets.all === true) return 'Every device';
  const parts = countedTargets(Many.parse(targets.deviceIds), Many.parse(targets.groupIds));
  if (targets.filterId !== undefined) parts.push('A filter');
  return parts.length === 0 ? 'None by itself' : parts.join(', ');
}
