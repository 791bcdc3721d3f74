import { Drawer, Group, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { call, useApiChange, type FoundMachine } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  ConfirmAction,
  Failure,
  formatBytes,
  formatCount,
  PagedTable,
  StateBadge,
  When,
} from '../../../ui/index.ts';
import { CommandStanding } from '../parts/command-standing.tsx';
import { DeviceLink } from '../parts/device-names.tsx';
import { FactTable } from '../parts/facts.tsx';
import { HYPERVISOR_NAMES } from '../parts/hypervisor-names.ts';
import { bootModeText } from '../parts/consistency.tsx';
import { Checkpoints } from './checkpoints.tsx';
import { ExportDialog } from './export-dialog.tsx';
import { ACTIONS, type MachineAction, stateRefusal, STATES } from './machine-texts.ts';

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
    <Drawer
      opened={machine !== undefined}
      onClose={onClose}
      position="right"
      size="lg"
      title={machine === undefined ? '' : `Machine ${machine.vmName}`}
    >
      {machine !== undefined && <Machine key={machine.vmId} machine={machine} />}
    </Drawer>
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
        <CommandStanding key={order} id={order} deviceId={deviceId} onDone={() => look.mutate()} />
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
