import { Group, Select, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import type { BackupSnapshot } from '../../../../api/index.ts';
import { useRefusal } from '../../../../session/index.ts';
import { Action, Panel } from '../../../../ui/index.ts';
import { NewTokenDialog } from '../../bare-metal/new-token-dialog.tsx';
import { notHere } from '../../parts/choose-image.tsx';
import { RestoreDiskDialog } from '../../restores/restore-disk-dialog.tsx';
import { BootDialog } from '../../vm-restores/boot-dialog.tsx';
import { MachineWizard } from '../../vm-restores/machine-wizard.tsx';
import type { DetailsOf } from '../../parts/content-text.ts';

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

/** Of the snapshot of a host, the other ways lead through its hypervisor. */
const isOfMachines = ({ way }: (typeof WAYS)[number]) => way === 'boot' || way === 'machine';

/** How a machine comes back from an image of its disks, also where that is one of several. */
export function WaysBack({
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
