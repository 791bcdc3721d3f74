import { Group, Stack, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { call, useApiChange, type FoundMachine } from '../../api/index.ts';
import { CHECKPOINTS_MAX, MACHINE_DISKS_MAX } from '../../../protocol/index.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  Failure,
  formatBytes,
  formatCount,
  PagedTable,
  PartNote,
  StateBadge,
  When,
  FormDialog,
  DetailsDrawer,
  useForm,
  FactTable,
} from '../../ui/index.ts';
import { CommandStatus, bootModeText } from './facts.tsx';
import { DeviceLink } from './selects.tsx';
import { HYPERVISOR_NAMES, ACTIONS, type MachineAction, stateRefusal, STATES } from './texts.ts';

const MIB = 2 ** 20;

/** One machine: what it is, and what can be done with it. */
export function MachineDrawer({
  machine,
  onClose,
}: {
  machine: FoundMachine | undefined;
  onClose: () => void;
}) {
  return (
    <DetailsDrawer
      opened={machine}
      onClose={onClose}
      title={machine === undefined ? '' : `Machine ${machine.vmName}`}
    >
      {(machine) => <Machine key={machine.vmId} machine={machine} />}
    </DetailsDrawer>
  );
}

function Machine({ machine }: { machine: FoundMachine }) {
  const { deviceId, hypervisor, state, generation, memoryMb, processorCount, disks, lastDiscoveredAt } =
    machine;
  const [order, setOrder] = useState<string>();
  const look = useLookAgain(machine);
  return (
    <Stack gap="sm">
      <StateActions machine={machine} onOrder={setOrder} />
      {order !== undefined && (
        <CommandStatus key={order} id={order} deviceId={deviceId} onDone={() => look.mutate()} />
      )}
      <FactTable
        label="About the machine"
        facts={[
          ['State', <StateBadge key="state" {...STATES[state]} />],
          ['Listed', <When key="listed" at={lastDiscoveredAt} />],
          ['Hypervisor', HYPERVISOR_NAMES[hypervisor]],
          ['Device', <DeviceLink key="device" id={deviceId} />],
          ['Generation', generation],
          ['Starts by', bootModeText(machine.bootMode)],
          ['Tracks changes', tracksText(machine.rctEnabled)],
          ['Memory', memoryMb === null ? null : formatBytes(memoryMb * MIB)],
          ['Processors', processorCount === null ? null : formatCount(processorCount)],
        ]}
      />
      <PagedTable
        label="Disks of the machine"
        // A device may name several disks alike.
        rows={disks.map((disk, place) => ({ ...disk, key: `${place}` }))}
        keyOf={({ key }) => key}
        columns={[
          {
            header: 'Disk',
            isName: true,
            cell: ({ path }) => (
              <span style={{ overflowWrap: 'anywhere' }}>{path === '' ? 'Without a name' : path}</span>
            ),
          },
          {
            header: 'On the host',
            align: 'right',
            width: 140,
            cell: ({ sizeBytes, isPassthrough }) =>
              isPassthrough ? 'A disk of the host' : sizeBytes === null ? '–' : formatBytes(sizeBytes),
          },
        ]}
      />
      <PartNote listed={disks.length} isCut={machine.isCut === true && disks.length === MACHINE_DISKS_MAX} />
      <Checkpoints machine={machine} onOrder={setOrder} />
    </Stack>
  );
}

const tracksText = (tracks: boolean | null): string | null =>
  tracks === null ? null : tracks ? 'Yes' : 'No';

/** Has the host list its machines again, as they are after what it has done. */
function useLookAgain({ deviceId, hypervisor }: FoundMachine) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () =>
      call(`GET /backup/${hypervisor}/vms/{deviceId}`, { params: { deviceId }, query: { refresh: 'true' } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: [`GET /backup/${hypervisor}/vms`] }),
  });
}

function StateActions({ machine, onOrder }: { machine: FoundMachine; onOrder: (id: string) => void }) {
  const { deviceId, vmId, vmName, hypervisor, state, hasPassthroughDisks } = machine;
  const navigate = useNavigate();
  const execute = useRefusal('backup:execute');
  const change = useApiChange(`POST /backup/${hypervisor}/vm-state`);
  const backup = useApiChange(`POST /backup/${hypervisor}/backup`, { refreshes: ['GET /backup/jobs'] });
  const [isExporting, exporting] = useDisclosure(false);
  const order = async (action: MachineAction) =>
    onOrder((await change.mutateAsync({ body: { deviceId, vmId, state: action } })).id);
  const passthrough = hasPassthroughDisks
    ? 'It has a disk of the host itself, which no backup contains.'
    : undefined;
  const button = { size: 'compact-sm', variant: 'default' } as const;
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Action
          size="compact-sm"
          refusal={execute ?? passthrough}
          loading={backup.isPending}
          onClick={() =>
            backup.mutate(
              { body: { deviceId, vmId } },
              {
                onSuccess: ({ backupJobId }) =>
                  void navigate({ to: '/backup/jobs', search: { job: backupJobId ?? undefined } }),
              },
            )
          }
        >
          Back up now
        </Action>
        <Action {...button} refusal={execute ?? passthrough} onClick={exporting.open}>
          Export …
        </Action>
        {ACTIONS.map(({ action, label, from, question }) =>
          question === undefined ? (
            <Action
              key={action}
              {...button}
              refusal={execute ?? stateRefusal(state, from)}
              onClick={() => void order(action).catch(() => undefined)}
            >
              {label}
            </Action>
          ) : (
            <ConfirmAction
              key={action}
              {...button}
              refusal={execute ?? stateRefusal(state, from)}
              title={`${label}: ${vmName}`}
              question={question}
              confirm={label}
              run={() => order(action)}
            >
              {label} …
            </ConfirmAction>
          ),
        )}
      </Group>
      {change.error !== null && <Failure error={change.error} />}
      {backup.error !== null && <Failure error={backup.error} />}
      {isExporting && <ExportDialog machine={machine} onOrder={onOrder} onClose={exporting.close} />}
    </Stack>
  );
}

/** Has the host export a machine into a folder, where it stays. */
function ExportDialog({
  machine: { deviceId, vmId, vmName, hypervisor },
  onOrder,
  onClose,
}: {
  machine: FoundMachine;
  onOrder: (id: string) => void;
  onClose: () => void;
}) {
  const form = useForm<{ exportPath: string; consistencyType: 'application' | 'crash' }>({
    exportPath: '',
    consistencyType: 'application',
  });
  const make = useApiChange(`POST /backup/${hypervisor}/backup`);
  const submit = async () => {
    const { exportPath, consistencyType } = form.values;
    const { id } = await make.mutateAsync({
      body: { deviceId, vmId, exportPath: exportPath.trim(), consistencyType },
    });
    onOrder(id);
  };
  return (
    <FormDialog
      title={`Export ${vmName}`}
      onClose={onClose}
      submitLabel="Export"
      submit={submit}
      form={form}
      fields={[
        {
          name: 'exportPath',
          label: 'Folder',
          required: true,
          description: 'A folder of the host. What is exported stays there, and is no snapshot.',
          placeholder: hypervisor === 'hyperv' ? String.raw`D:\Exports` : '/srv/exports',
        },
        {
          name: 'consistencyType',
          kind: 'radio',
          label: 'Consistency',
          options: [
            {
              value: 'application',
              label: 'Of the applications',
              description: `${HYPERVISOR_NAMES[hypervisor]} has the programs in the machine write what they hold.`,
            },
            {
              value: 'crash',
              label: 'As after a power cut',
              description: 'What the programs have not written yet is missing.',
            },
          ],
        },
      ]}
    />
  );
}

/** States to which a machine can go back. */
function Checkpoints({
  machine,
  onOrder,
}: {
  machine: FoundMachine;
  /** Gets the command that the host was sent. */
  onOrder: (id: string) => void;
}) {
  const { deviceId, vmId, vmName, hypervisor, checkpoints, isCut } = machine;
  const [isOpen, { open, close }] = useDisclosure(false);
  const execute = useRefusal('backup:execute');
  const change = useApiChange(`POST /backup/${hypervisor}/checkpoint`);
  const order = async (action: 'delete' | 'apply', checkpointId: string) =>
    onOrder((await change.mutateAsync({ body: { deviceId, vmId, action, checkpointId } })).id);
  const button = { size: 'compact-xs', variant: 'subtle', refusal: execute } as const;
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={3} size="h5">
          Checkpoints
        </Title>
        <Action size="compact-sm" variant="default" refusal={execute} onClick={open}>
          New checkpoint …
        </Action>
      </Group>
      {checkpoints.length === 0 ? (
        <Text size="sm">There is none. Make one before something is changed in the machine.</Text>
      ) : (
        <PagedTable
          label="Checkpoints"
          rows={checkpoints}
          keyOf={({ id }) => id}
          columns={[
            { header: 'Name', isName: true, cell: ({ name }) => name },
            {
              header: 'Created',
              width: 110,
              cell: ({ createdAt }) => <When at={timeOf(createdAt)} never="Not known" />,
            },
            {
              header: 'Actions',
              align: 'right',
              cell: ({ id, name }) => (
                <Group gap={2} justify="flex-end">
                  <ConfirmAction
                    {...button}
                    title={`Go back to “${name}”`}
                    question={`What “${vmName}” has written since then is lost.`}
                    confirm="Go back"
                    run={() => order('apply', id)}
                  >
                    Go back
                  </ConfirmAction>
                  <ConfirmAction
                    {...button}
                    title={`Delete “${name}”`}
                    question="The machine stays as it is now. There is no way back to this state any more."
                    confirm="Delete"
                    run={() => order('delete', id)}
                  >
                    Delete
                  </ConfirmAction>
                </Group>
              ),
            },
          ]}
        />
      )}
      <PartNote
        listed={checkpoints.length}
        isCut={isCut === true && checkpoints.length === CHECKPOINTS_MAX}
      />
      {isOpen && <NewCheckpoint machine={machine} onOrder={onOrder} onClose={close} />}
    </Stack>
  );
}

/** Devices write what they like. */
const timeOf = (text: string | null): string | null =>
  text === null || Number.isNaN(Date.parse(text)) ? null : text;

function NewCheckpoint({
  machine: { deviceId, vmId, vmName, hypervisor },
  onOrder,
  onClose,
}: {
  machine: FoundMachine;
  onOrder: (id: string) => void;
  onClose: () => void;
}) {
  const form = useForm({ checkpointName: '' });
  const make = useApiChange(`POST /backup/${hypervisor}/checkpoint`);
  const submit = async () => {
    const checkpointName = form.values.checkpointName.trim();
    const { id } = await make.mutateAsync({
      body: { deviceId, vmId, action: 'create', ...(checkpointName === '' ? {} : { checkpointName }) },
    });
    onOrder(id);
  };
  return (
    <FormDialog
      title={`New checkpoint of ${vmName}`}
      onClose={onClose}
      submitLabel="Make the checkpoint"
      submit={submit}
      form={form}
      fields={[
        {
          note: 'what',
          text: 'The device is asked to make it. It takes space on the host until it is deleted, and is no backup.',
        },
        { name: 'checkpointName', label: 'Name', description: 'Empty: the device names it.' },
      ]}
    />
  );
}
