import { Alert, Button, Group, Modal, Text } from '@mantine/core';
import { IconUserQuestion } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type Device } from '../../../api/index.ts';
import { Action, DeviceLink } from '../../../ui/index.ts';
import { DialogForm } from '../dialogs/dialog-form.tsx';
import { REFRESHES } from '../dialogs/simple-forms.tsx';
import { useDeviceRefusals } from './device-refusals.ts';

const TITLES = {
  approve: 'Approve the device',
  replace: 'Replace the other device',
  remove: 'Remove the device',
} as const;

/** A device that waits for approval: why, and what can be decided. */
export function PendingNotice({ device }: { device: Device }) {
  const refusals = useDeviceRefusals(device);
  const [dialog, setDialog] = useState<keyof typeof TITLES>();
  const other = useOther(device.conflictsWith);
  return (
    <Alert
      color="orange"
      variant="light"
      p="xs"
      icon={<IconUserQuestion aria-hidden />}
      title="This device waits for approval"
    >
      <Text size="sm">
        It was enrolled with the machine id of{' '}
        {other === undefined ? 'another device' : <DeviceLink device={other} />}, which was connected. It may
        be a copy of that machine. Until somebody decides, it gets no commands, upgrades or backups.
      </Text>
      <Group gap="xs" mt="xs">
        <Action variant="default" refusal={refusals.write} onClick={() => setDialog('approve')}>
          Approve
        </Action>
        {other !== undefined && (
          <Action
            variant="default"
            refusal={refusals.write ?? refusals.decommission}
            onClick={() => setDialog('replace')}
          >
            {`Replace ${nameOf(other)}`}
          </Action>
        )}
        <Action variant="default" refusal={refusals.decommission} onClick={() => setDialog('remove')}>
          Remove
        </Action>
      </Group>
      <Modal
        opened={dialog !== undefined}
        onClose={() => setDialog(undefined)}
        title={dialog === undefined ? '' : TITLES[dialog]}
        centered
      >
        {dialog !== undefined && (
          <Decision dialog={dialog} device={device} other={other} onClose={() => setDialog(undefined)} />
        )}
      </Modal>
    </Alert>
  );
}
