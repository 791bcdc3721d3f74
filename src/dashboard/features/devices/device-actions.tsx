import { Button, Group, Menu, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import {
  IconArchive,
  IconArrowsMove,
  IconChevronDown,
  IconDownload,
  IconPencil,
  IconPower,
  IconRefresh,
  IconRestore,
  IconTags,
  IconTool,
} from '@tabler/icons-react';
import { useState, type ReactNode } from 'react';
import { useApiChange, type Device } from '../../api/index.ts';
import { Action, formatTime, MenuEntry, Modal } from '../../ui/index.ts';
import { DialogForm, MaintenanceForm, MoveForm, REFRESHES, RenameForm, TagsForm } from './device-dialogs.tsx';
import type { DeviceDialog } from './device-tabs.ts';
import { useDeviceRefusals } from './use-device.ts';
import { useDeviceAddress } from './tab-parts.tsx';

const TITLES: Record<DeviceDialog, string> = {
  rename: 'Rename the device',
  tags: 'Tags',
  move: 'Move the device',
  maintenance: 'Maintenance',
  reboot: 'Restart the machine',
  decommission: 'Decommission the device',
  restore: 'Put the device back in service',
};

/** The actions on the device. Each one that is not available says why. */
export function DeviceActions({ device }: { device: Device }) {
  const refusals = useDeviceRefusals(device);
  const { search, narrow: change, put } = useDeviceAddress();
  const { dialog } = search;
  const setDialog = (next: DeviceDialog | undefined) => put({ dialog: next });
  const maintenance = useApiChange('POST /devices/{id}/maintenance', { refreshes: REFRESHES });
  const patch = useApiChange('PATCH /devices/{id}', { refreshes: REFRESHES });
  const send = useApiChange('POST /devices/{id}/commands', { refreshes: ['GET /devices/{id}/commands'] });
  const params = { id: device.id };
  const isMaintained = device.status === 'maintenance';

  const endMaintenance = () =>
    maintenance.mutate({ params, body: { enabled: false } }, { onError: showFailure });
  const refresh = () =>
    send.mutate(
      { params, body: { type: 'agent.refresh-inventory' } },
      {
        onError: showFailure,
        onSuccess: ({ waitsForDevice }) =>
          notifications.show({
            title: 'Inventory asked for',
            message: waitsForDevice
              ? 'The device sends it when it is back.'
              : 'The device sends it in a moment; this page shows it by itself.',
          }),
      },
    );
  const setAutoUpdate = () =>
    patch.mutate({ params, body: { autoUpdate: !device.autoUpdate } }, { onError: showFailure });

  return (
    <>
      <Action
        variant="default"
        icon={IconTool}
        refusal={refusals.maintenance}
        loading={maintenance.isPending}
        onClick={isMaintained ? endMaintenance : () => setDialog('maintenance')}
      >
        {isMaintained ? 'End maintenance' : 'Maintenance'}
      </Action>
      <Action
        variant="default"
        refusal={refusals.command('script.run')}
        onClick={() => change({ tab: 'commands', show: 'run' })}
      >
        Run script
      </Action>
      <Menu position="bottom-end" width={290}>
        <Menu.Target>
          <Button variant="default" rightSection={<IconChevronDown size={14} aria-hidden />}>
            More
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <MenuEntry icon={IconPencil} refusal={refusals.write} onClick={() => setDialog('rename')}>
            Rename
          </MenuEntry>
          <MenuEntry icon={IconTags} refusal={refusals.write} onClick={() => setDialog('tags')}>
            Tags
          </MenuEntry>
          <MenuEntry icon={IconArrowsMove} refusal={refusals.write} onClick={() => setDialog('move')}>
            Move
          </MenuEntry>
          <MenuEntry icon={IconDownload} refusal={refusals.write} onClick={setAutoUpdate}>
            {device.autoUpdate ? 'Turn automatic updates off' : 'Turn automatic updates on'}
          </MenuEntry>
          <Menu.Divider />
          <MenuEntry
            icon={IconRefresh}
            refusal={refusals.command('agent.refresh-inventory')}
            onClick={refresh}
          >
            Refresh inventory
          </MenuEntry>
          <MenuEntry
            icon={IconPower}
            refusal={refusals.command('agent.reboot')}
            onClick={() => setDialog('reboot')}
          >
            Restart the machine
          </MenuEntry>
          <Menu.Divider />
          {device.status === 'decommissioned' ? (
            <MenuEntry icon={IconRestore} refusal={refusals.restore} onClick={() => setDialog('restore')}>
              Put back in service
            </MenuEntry>
          ) : (
            <MenuEntry
              icon={IconArchive}
              refusal={refusals.decommission}
              onClick={() => setDialog('decommission')}
            >
              Decommission
            </MenuEntry>
          )}
        </Menu.Dropdown>
      </Menu>
      <Modal
        opened={dialog !== undefined}
        onClose={() => setDialog(undefined)}
        title={dialog === undefined ? '' : TITLES[dialog]}
        centered
      >
        {dialog !== undefined && (
          <Refusable refusal={refusalOfDialog(dialog, refusals)} onClose={() => setDialog(undefined)}>
            <DialogContent dialog={dialog} device={device} onClose={() => setDialog(undefined)} />
          </Refusable>
        )}
      </Modal>
    </>
  );
}

/** A dialog that a link or the palette has opened may be of an action that is not available. */
function Refusable({
  refusal,
  onClose,
  children,
}: {
  refusal: string | undefined;
  onClose: () => void;
  children: ReactNode;
}) {
  // A form that is open stays, whatever becomes of the device.
  const [why] = useState(refusal);
  if (why === undefined) return children;
  return (
    <Stack>
      <Text size="sm">{why}</Text>
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose} data-autofocus>
          Close
        </Button>
      </Group>
    </Stack>
  );
}

function refusalOfDialog(
  dialog: DeviceDialog,
  refusals: ReturnType<typeof useDeviceRefusals>,
): string | undefined {
  switch (dialog) {
    case 'rename':
    case 'tags':
    case 'move':
      return refusals.write;
    case 'maintenance':
      return refusals.maintenance;
    case 'reboot':
      return refusals.command('agent.reboot');
    case 'decommission':
      return refusals.decommission;
    case 'restore':
      return refusals.restore;
    default:
      return dialog satisfies never;
  }
}

function DialogContent({
  dialog,
  device,
  onClose,
}: {
  dialog: DeviceDialog;
  device: Device;
  onClose: () => void;
}) {
  const maintenance = useApiChange('POST /devices/{id}/maintenance', { refreshes: REFRESHES });
  const send = useApiChange('POST /devices/{id}/commands', { refreshes: ['GET /devices/{id}/commands'] });
  const remove = useApiChange('DELETE /devices/{id}', { refreshes: REFRESHES });
  const restore = useApiChange('POST /devices/{id}/restore', { refreshes: REFRESHES });
  const params = { id: device.id };
  const name = device.displayName ?? device.hostname;
  switch (dialog) {
    case 'rename':
      return <RenameForm device={device} onClose={onClose} />;
    case 'tags':
      return <TagsForm device={device} onClose={onClose} />;
    case 'move':
      return <MoveForm device={device} onClose={onClose} />;
    case 'maintenance':
      return (
        <MaintenanceForm
          onClose={onClose}
          run={(until) => maintenance.mutateAsync({ params, body: { enabled: true, until } })}
        />
      );
    case 'reboot':
      return (
        <DialogForm
          confirm="Restart"
          color="red"
          onClose={onClose}
          run={async () => {
            const { waitsForDevice, expiresAt } = await send.mutateAsync({
              params,
              body: { type: 'agent.reboot' },
            });
            notifications.show({
              title: `${name} was asked to restart`,
              message: waitsForDevice
                ? `It is offline, and restarts when it is back, until ${formatTime(new Date(expiresAt))}.`
                : 'It is offline for some minutes.',
            });
          }}
        >
          <Text size="sm">
            {name} restarts at once. A person who works at it loses what is not saved.
            {device.presence.state === 'disconnected' &&
              ' It is offline now: it restarts when it is back, within a day.'}
          </Text>
        </DialogForm>
      );
    case 'decommission':
      return (
        <DialogForm
          confirm="Decommission"
          color="red"
          onClose={onClose}
          run={() => remove.mutateAsync({ params })}
        >
          <Text size="sm">
            {name} leaves the lists, its connection ends, and its agent can no longer sign in. The record
            stays, and the device can be put back in service; its agent then has to enroll again.
          </Text>
        </DialogForm>
      );
    case 'restore':
      return (
        <DialogForm confirm="Put back" onClose={onClose} run={() => restore.mutateAsync({ params })}>
          <Text size="sm">
            {name} returns to the lists as it was. Its agent has to enroll again before it connects.
          </Text>
        </DialogForm>
      );
    default:
      return dialog satisfies never;
  }
}

const showFailure = (error: Error) =>
  notifications.show({ color: 'red', message: error.message, autoClose: 10_000 });
