import { Group, Select, Stack, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type BackupSnapshot, useApiChange } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { Action, Panel, FormDialog, formatBytes, useForm, Notice } from '../../ui/index.ts';
import { notHere } from './choose-image.tsx';
import { NewTokenDialog } from './new-bare-metal-token-dialog.tsx';
import { DeviceSelect } from './selects.tsx';
import type { DetailsOf } from './texts.ts';
import { BootDialog, MachineWizard } from './vm-dialogs.tsx';

type Way = 'boot' | 'machine' | 'disk' | 'token';

const WAYS: readonly { way: Way; name: string; text: string; action: string }[] = [
  {
    way: 'boot',
    name: 'Instant boot',
    text: 'A virtual machine runs straight from the snapshot within seconds. What it writes stays on its host.',
    action: 'Start a machine …',
  },
  {
    way: 'machine',
    name: 'Virtual machine',
    text: 'The disks are copied to a host, where a virtual machine is made of them.',
    action: 'Restore as a machine …',
  },
  {
    way: 'disk',
    name: 'One disk',
    text: 'A disk comes to a file, or onto an unused disk of a device.',
    action: 'Restore a disk …',
  },
  {
    way: 'token',
    name: 'Bare-metal recovery',
    text: 'A new or empty machine, without an agent, fetches the disks with a token.',
    action: 'New recovery token …',
  },
];

/** The ways to restore the snapshot of a host; the other ways lead through its hypervisor. */
const isOfMachines = ({ way }: (typeof WAYS)[number]) => way === 'boot' || way === 'machine';

/** How a machine comes back from an image of its disks, even if that is one of several. */
export function RestoreOptions({
  snapshot,
  details,
  asOf,
}: {
  snapshot: BackupSnapshot;
  details: DetailsOf<'image'> | DetailsOf<'machines'>;
  asOf: string | undefined;
}) {
  const [way, setWay] = useState<Way>();
  const machines = details.kind === 'machines' ? details.machines : [];
  const [machineId, setMachine] = useState(machines[0]?.id);
  const machine = machines.find(({ id }) => id === machineId);
  const refusal = useRefusal('recovery:execute') ?? notHere(snapshot);
  const past =
    asOf === undefined
      ? undefined
      : 'Machines come from the backup store as it is now. A disk can be restored.';
  const close = () => setWay(undefined);
  return (
    <Panel title="Ways back">
      <Stack gap="xs">
        {machines.length > 1 && (
          <Select
            label="Which machine"
            w={280}
            searchable
            allowDeselect={false}
            data={machines.map(({ id, name }) => ({ value: id, label: name }))}
            value={machineId ?? null}
            onChange={(next) => setMachine(next ?? undefined)}
          />
        )}
        {(details.kind === 'image' ? WAYS : WAYS.filter(isOfMachines)).map(
          ({ way: each, name, text, action }) => (
            <Group key={each} justify="space-between" wrap="nowrap">
              <div>
                <Text size="sm" fw={600}>
                  {name}
                </Text>
                <Text size="sm">{text}</Text>
              </div>
              <Action
                variant="default"
                size="compact-sm"
                flex="none"
                refusal={refusal ?? (each === 'disk' ? undefined : past)}
                onClick={() => setWay(each)}
              >
                {action}
              </Action>
            </Group>
          ),
        )}
      </Stack>
      {way === 'boot' && <BootDialog snapshot={snapshot} machine={machine} onClose={close} />}
      {way === 'machine' && <MachineWizard snapshot={snapshot} machine={machine} onClose={close} />}
      {way === 'disk' && details.kind === 'image' && (
        <RestoreDiskDialog snapshot={snapshot} disks={details.disks} asOf={asOf} onClose={close} />
      )}
      {way === 'token' && <NewTokenDialog snapshot={snapshot} onClose={close} />}
    </Panel>
  );
}

interface DiskRestore {
  disk: string;
  deviceId: string | undefined;
  place: 'file' | 'disk';
  targetPath: string;
  isReplacing: boolean;
  grow: boolean;
}

/** Restores one disk of an image to a file or onto a disk of a device, and leads to the restore. */
function RestoreDiskDialog({
  snapshot,
  disks,
  asOf,
  onClose,
}: {
  snapshot: BackupSnapshot;
  disks: DetailsOf<'image'>['disks'];
  /** The state of the backup store that is restored from; without it, that of now. */
  asOf?: string | undefined;
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const form = useForm<DiskRestore>({
    disk: disks[0]?.name ?? '',
    deviceId: snapshot.deviceId,
    place: 'file',
    targetPath: '',
    isReplacing: false,
    grow: false,
  });
  const { disk, deviceId, isReplacing, grow } = form.values;
  const targetPath = form.values.targetPath.trim();
  const restore = useApiChange('POST /backup/restore', { refreshes: ['GET /backup/restore'] });
  const isDisk = form.values.place === 'disk';
  const submit = async () => {
    const { id } = await restore.mutateAsync({
      body: {
        snapshotId: snapshot.id,
        restoreType: 'image',
        ...(disk === '' ? {} : { disk }),
        ...(deviceId === undefined ? {} : { deviceId }),
        targetPath,
        overwrite: isReplacing ? 'always' : 'never',
        grow,
        ...(asOf === undefined ? {} : { asOf }),
      },
    });
    await navigate({ to: '/backup/restores', search: { restore: id } });
  };
  return (
    <FormDialog
      title="Restore a disk"
      size="lg"
      onClose={onClose}
      submitLabel="Restore"
      submit={submit}
      form={form}
      fields={[
        {
          name: 'disk',
          kind: 'choice',
          label: 'Disk',
          required: true,
          options: disks.map(({ name, sizeBytes }) => ({
            value: name,
            label: `${name}, ${formatBytes(sizeBytes)}`,
          })),
        },
        {
          name: 'deviceId',
          control: (field) => (
            <DeviceSelect
              label="To which device"
              description="The device that was backed up, or another one of its organization."
              orgId={snapshot.orgId}
              {...field}
            />
          ),
        },
        {
          name: 'place',
          kind: 'radio',
          label: 'To where',
          options: [
            {
              value: 'file',
              label: 'A file',
              description: 'With the bytes of the disk. It takes the space that is in use.',
            },
            {
              value: 'disk',
              label: 'A whole disk',
              description: 'One that is not mounted and at least as large.',
            },
          ],
          resets: { isReplacing: false },
        },
        {
          name: 'targetPath',
          label: isDisk ? 'Disk of the device' : 'File',
          required: true,
          placeholder: isDisk ? '/dev/sdb' : '/srv/restored/sda.img',
        },
        isDisk && {
          note: 'loss',
          text: (
            <Notice tone="bad" title="The disk is overwritten">
              Everything that is on {targetPath === '' ? 'it' : targetPath} is lost.
            </Notice>
          ),
        },
        {
          name: 'isReplacing',
          fault: 'overwrite',
          kind: 'checkbox',
          label: isDisk ? 'Everything on that disk may be lost' : 'Replace the file if it is there',
          required: isDisk,
        },
        {
          name: 'grow',
          kind: 'checkbox',
          label: 'Use all of a larger disk',
          description: 'Extends the last partition to the end of the disk.',
        },
      ]}
    />
  );
}
