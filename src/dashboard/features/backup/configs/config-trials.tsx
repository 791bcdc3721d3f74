import { Group, Modal, Select, Stack, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, type BackupConfig } from '../../../api/index.ts';
import { Action, Failure, formatWord, StateBadge } from '../../../ui/index.ts';
import { BACKUP_TYPE_NAMES, BACKUP_TYPES, type BackupType } from '../parts/database-names.ts';
import { DeviceSelect } from '../parts/device-names.tsx';

interface Props {
  config: BackupConfig;
  onClose: () => void;
}

/** Tests where the data goes, and shows each check. */
export function TestDialog({ config, onClose }: Props) {
  const [deviceId, setDevice] = useState<string>();
  const test = useApiChange('POST /backup/configs/{id}/test');
  const needsDevice = config.provider !== 'server';
  const missing =
    needsDevice && deviceId === undefined ? 'Only devices reach this place: choose one.' : undefined;
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Test “${config.name}”`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
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
export function RunDialog({ config, onClose }: Props) {
  const navigate = useNavigate();
  const [deviceId, setDevice] = useState<string>();
  const [backupType, setType] = useState<BackupType>();
  const run = useApiChange('POST /backup/jobs/run/{deviceId}', { refreshes: ['GET /backup/jobs'] });
  const begin = () => {
    if (deviceId === undefined) return;
    run.mutate(
      {
        params: { deviceId },
        body: { configId: config.id, ...(backupType === undefined ? {} : { backupType }) },
      },
      { onSuccess: ({ id }) => void navigate({ to: '/backup/jobs', search: { job: id } }) },
    );
  };
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Run “${config.name}” now`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Stack>
        <DeviceSelect label="Device" orgId={config.orgId} value={deviceId} onChange={setDevice} />
        {isOfDatabase(config) && (
          <Select
            label="Type"
            placeholder="What the chain needs next"
            description="A type that the chain does not allow is refused."
            clearable
            data={BACKUP_TYPES.map((value) => ({ value, label: BACKUP_TYPE_NAMES[value] }))}
            value={backupType ?? null}
            onChange={(next) => setType(BACKUP_TYPES.find((type) => type === next))}
          />
        )}
        {run.error !== null && <Failure error={run.error} />}
        <Group justify="flex-end">
          <Action variant="default" onClick={onClose}>
            Cancel
          </Action>
          <Action
            refusal={deviceId === undefined ? 'Choose a device first.' : undefined}
            loading={run.isPending}
            onClick={begin}
          >
            Back up now
          </Action>
        </Group>
      </Stack>
    </Modal>
  );
}
