import { Alert, Anchor, Group, Modal, Table, Text } from '@mantine/core';
import { IconUserQuestion } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import { apiQuery, useApiChange, type Device } from '../../../api/index.ts';
import { Action, When } from '../../../ui/index.ts';
import { DialogForm } from '../dialogs/dialog-form.tsx';
import { REFRESHES } from '../dialogs/simple-forms.tsx';
import { useDeviceRefusals } from './device-refusals.ts';
import { isMissing } from './use-device.ts';

const TITLES = {
  approve: 'Approve as a device of its own',
  replace: 'Replace the other device',
  remove: 'Remove the device',
} as const;

/** A device that waits for approval: why, and what can be decided. */
export function PendingNotice({ device }: { device: Device }) {
  const refusals = useDeviceRefusals(device);
  const [dialog, setDialog] = useState<keyof typeof TITLES>();
  const { conflictsWith } = device;
  const found = useQuery({
    ...apiQuery('GET /devices/{id}', { params: { id: conflictsWith ?? '' } }),
    enabled: conflictsWith !== null,
  });
  const other = conflictsWith === null ? undefined : found.data;
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
        {other === undefined
          ? 'another device, which was connected then'
          : `${nameOf(other)}, which was connected then`}
        . It may be a copy of that machine. Until it is approved, it gets no commands, upgrades or backups.
        {isMissing(found.error) && ' That device is no longer in service, or you do not see it.'}
      </Text>
      {other !== undefined && <BothMachines device={device} other={other} />}
      <Group gap="xs" mt="xs">
        <Action variant="default" refusal={refusals.write} onClick={() => setDialog('approve')}>
          Approve as its own device
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

/** What tells two machines with one machine id apart. */
function BothMachines({ device, other }: { device: Device; other: Device }) {
  const facts: [name: string, value: (of: Device) => ReactNode][] = [
    ['Host name', ({ hostname }) => hostname],
    ['Serial number', ({ hardware }) => hardware.serialNumber],
    ['Model', ({ hardware }) => [hardware.manufacturer, hardware.model].filter(Boolean).join(' ')],
    ['MAC address', ({ network }) => network.macAddresses?.join(', ') || network.macAddress],
    ['Seen from', ({ lastIp }) => lastIp],
    ['Enrolled', ({ enrolledAt }) => <When at={enrolledAt} />],
  ];
  const rows = facts
    .map(([name, value]) => ({ name, own: value(device), others: value(other) }))
    .filter(({ own, others }) => Boolean(own) || Boolean(others));
  return (
    <Table mt="xs" w="auto" verticalSpacing={2} withRowBorders={false} aria-label="The two machines">
      <Table.Thead>
        <Table.Tr>
          <Table.Td />
          <Table.Th scope="col">This machine</Table.Th>
          <Table.Th scope="col">
            <Anchor
              inherit
              // The colour of links is too pale on this ground.
              c="inherit"
              underline="always"
              renderRoot={(props) => (
                <Link {...props} to="/devices/$deviceId" params={{ deviceId: other.id }} />
              )}
            >
              {nameOf(other)}
            </Anchor>
          </Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map(({ name, own, others }) => (
          <Table.Tr key={name}>
            <Table.Th scope="row" fw={400}>
              {name}
            </Table.Th>
            <Table.Td>{own || 'Not reported'}</Table.Td>
            <Table.Td>{others || 'Not reported'}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

const nameOf = ({ displayName, hostname }: Device) => displayName ?? hostname;

function Decision({
  dialog,
  device,
  other,
  onClose,
}: {
  dialog: keyof typeof TITLES;
  device: Device;
  other: Device | undefined;
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const approve = useApiChange('POST /devices/{id}/approve', { refreshes: REFRESHES });
  const remove = useApiChange('DELETE /devices/{id}', { refreshes: REFRESHES });
  const params = { id: device.id };
  const name = nameOf(device);
  switch (dialog) {
    case 'approve':
      return (
        <DialogForm confirm="Approve" onClose={onClose} run={() => approve.mutateAsync({ params, body: {} })}>
          <Text size="sm">
            {name} becomes a device of its own, beside {other === undefined ? 'the other one' : nameOf(other)}
            .
          </Text>
        </DialogForm>
      );
    case 'replace':
      return (
        <DialogForm
          confirm="Replace"
          color="red"
          isReady={other !== undefined}
          onClose={onClose}
          run={async () => {
            if (other === undefined) return;
            await approve.mutateAsync({ params, body: { replaces: other.id } });
            await navigate({ to: '/devices/$deviceId', params: { deviceId: other.id }, search: {} });
          }}
        >
          <Text size="sm">
            The machine {name} continues the record of{' '}
            {other === undefined ? 'the other device' : nameOf(other)}, with its groups, history and backups.
            The machine that is connected there now can no longer sign in. This needs a session with a second
            factor.
          </Text>
        </DialogForm>
      );
    case 'remove':
      return (
        <DialogForm confirm="Remove" color="red" onClose={onClose} run={() => remove.mutateAsync({ params })}>
          <Text size="sm">
            {name} leaves the lists and can no longer sign in. With an enrollment key, its agent can enroll
            again and then waits again.
          </Text>
        </DialogForm>
      );
    default:
      return dialog satisfies never;
  }
}
