import { Accordion, Button, Group, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconPlus } from '@tabler/icons-react';
import { useState } from 'react';
import { useDeviceName } from '../backup/index.ts';
import {
  useApiChange,
  type RecoveryDevice,
  type RecoveryGroup,
  type RecoveryPlanDetail,
} from '../../api/index.ts';
import { choicesOf } from '../../directory.ts';
import { FormDialog, useForm } from '../../ui/index.ts';
import { DeviceFields, type DeviceForm } from './device-fields.tsx';
import { RESTORE_NAMES } from './recovery-frame.tsx';

const READS = ['GET /dr/plans/{id}', 'GET /dr/plans'] as const;
let made = 0;
const newDevice = (): DeviceForm => ({
  key: ++made,
  deviceId: '',
  restore: { type: 'files', overwrite: 'always' },
  checks: [],
});
const withoutKey = (form: DeviceForm): RecoveryDevice => {
  const { key: _, ...device } = form;
  return device;
};
const formOf = (device: RecoveryDevice): DeviceForm => ({ key: ++made, ...device });

/** Makes a group of a plan, or changes one: its place in the order, its devices, and how they are checked. */
export function GroupDialog({
  plan,
  group,
  onClose,
}: {
  plan: RecoveryPlanDetail;
  group: RecoveryGroup | undefined;
  onClose: () => void;
}) {
  const highest = Math.max(0, ...plan.groups.map(({ sequence }) => sequence));
  const form = useForm({
    name: group?.name ?? '',
    sequence: group?.sequence ?? highest + 1,
    dependsOnGroupId: group?.dependsOnGroupId ?? null,
    estimatedDurationMinutes: group?.estimatedDurationMinutes ?? null,
  });
  const [devices, setDevices] = useState<readonly DeviceForm[]>(() =>
    group === undefined ? [newDevice()] : group.devices.map(formOf),
  );
  const [opened, setOpened] = useState<string | null>(
    group === undefined || group.devices.length === 1 ? String(devices[0]?.key) : null,
  );
  const create = useApiChange('POST /dr/plans/{id}/groups', { refreshes: READS });
  const patch = useApiChange('PATCH /dr/plans/{id}/groups/{groupId}', { refreshes: READS });
  const body = () => ({ ...form.values, devices: devices.map(withoutKey) });
  const add = () => {
    const device = newDevice();
    setDevices([...devices, device]);
    setOpened(String(device.key));
  };
  return (
    <FormDialog
      title={group === undefined ? 'New group' : `Change “${group.name}”`}
      size="xl"
      onClose={onClose}
      submitLabel={group === undefined ? 'Add the group' : 'Save'}
      submit={() =>
        group === undefined
          ? create.mutateAsync({ params: { id: plan.id }, body: body() })
          : patch.mutateAsync({ params: { id: plan.id, groupId: group.id }, body: body() })
      }
      form={form}
      fields={[
        [
          { name: 'name', label: 'Name', description: 'Such as Databases.', required: true },
          {
            name: 'sequence',
            kind: 'number',
            label: 'Number in the order',
            description: 'Equal ones run together.',
            required: true,
            min: 0,
            max: 10_000,
          },
          {
            name: 'dependsOnGroupId',
            kind: 'choice',
            label: 'Also waits for',
            description: 'A group of no higher number.',
            placeholder: 'None',
            options: choicesOf(plan.groups.filter(({ id }) => id !== group?.id)),
            empty: null,
          },
          {
            name: 'estimatedDurationMinutes',
            kind: 'number',
            label: 'Estimated',
            description: 'For the page of the plan.',
            placeholder: 'Not known',
            suffix: ' min',
            min: 1,
            empty: null,
          },
        ],
      ]}
    >
      {(faults) => (
        <>
          <Group justify="space-between">
            <Text size="sm" fw={500}>
              Devices
            </Text>
            <Button variant="default" leftSection={<IconPlus size={14} aria-hidden />} onClick={add}>
              Add a device
            </Button>
          </Group>
          <Accordion variant="contained" value={opened} onChange={setOpened} keepMounted={false}>
            {devices.map((device, at) => {
              const own = faultsOf(faults, at);
              return (
                <Accordion.Item key={device.key} value={String(device.key)}>
                  <Accordion.Control>
                    <Title device={device} isFaulty={Object.keys(own).length > 0} />
                  </Accordion.Control>
                  <Accordion.Panel>
                    <Stack gap="sm">
                      <DeviceFields
                        orgId={plan.orgId}
                        device={device}
                        faults={own}
                        onChange={(next) =>
                          setDevices(devices.map((one) => (one.key === next.key ? next : one)))
                        }
                      />
                      <Group justify="flex-end">
                        <Button
                          variant="subtle"
                          color="red"
                          disabled={devices.length === 1}
                          onClick={() => setDevices(devices.filter(({ key }) => key !== device.key))}
                        >
                          Remove this device
                        </Button>
                      </Group>
                    </Stack>
                  </Accordion.Panel>
                </Accordion.Item>
              );
            })}
          </Accordion>
        </>
      )}
    </FormDialog>
  );
}

/** The rules that fields of one device break, by their paths within it. */
function faultsOf(faults: Record<string, string>, at: number): Record<string, string> {
  const start = `devices.${at}.`;
  return Object.fromEntries(
    Object.entries(faults)
      .filter(([path]) => path.startsWith(start))
      .map(([path, rule]) => [path.slice(start.length), rule]),
  );
}

function Title({ device, isFaulty }: { device: DeviceForm; isFaulty: boolean }) {
  return (
    <Group gap={6}>
      <Text size="sm" fw={500}>
        {device.deviceId === '' ? 'A device' : <NameOf id={device.deviceId} />}
      </Text>
      <Text size="xs" c="dimmed">
        {RESTORE_NAMES[device.restore.type]}, {device.checks.length}{' '}
        {device.checks.length === 1 ? 'check' : 'checks'}
      </Text>
      {isFaulty && <IconAlertTriangle size={14} role="img" aria-label="has a fault" />}
    </Group>
  );
}

const NameOf = ({ id }: { id: string }) => useDeviceName(id);
