import { Group, NumberInput, Radio, Stack, TextInput } from '@mantine/core';
import type { VmEstimate } from '../../../api/index.ts';
import { faultIn, isOfFiles, type NetworkChoice, type WishProps } from './machine-wish.ts';

export function NeedsFields({ wish, set, faults, estimate }: WishProps & { estimate: VmEstimate }) {
  return (
    <>
      <TextInput
        label="Name"
        description="What the machine is called on its host."
        required
        maxLength={200}
        value={wish.vmName}
        onChange={(event) => set({ vmName: event.currentTarget.value })}
        error={faults['vmName']}
        data-autofocus
      />
      <Group grow align="flex-start">
        <NumberInput
          label="Memory in MiB"
          required
          min={512}
          step={512}
          value={wish.memoryMb ?? estimate.memoryMb}
          onChange={(memoryMb) => set({ memoryMb })}
          error={faults['vmSpecs.memoryMb']}
        />
        <NumberInput
          label="Processors"
          required
          min={1}
          max={255}
          value={wish.cpuCount ?? estimate.cpuCount}
          onChange={(cpuCount) => set({ cpuCount })}
          error={faults['vmSpecs.cpuCount']}
        />
      </Group>
    </>
  );
}

const NETWORKS: readonly { value: NetworkChoice; label: string; description: string }[] = [
  {
    value: 'isolated',
    label: 'A network of its own',
    description: 'It reaches nothing, so it cannot disturb its original where that still runs.',
  },
  {
    value: 'host',
    label: 'The network of its host',
    description: 'It reaches what its host reaches, with the address of the host.',
  },
  {
    value: 'bridge',
    label: 'A bridge of its host',
    description:
      'It is a machine of that network, with an address of its own. Its original must not run there.',
  },
  { value: 'none', label: 'No network', description: 'Its screen is the only way to it.' },
];

export function NetworkFields({ wish, set, faults }: WishProps) {
  const hasPorts = wish.network === 'isolated' || wish.network === 'host';
  return (
    <>
      <Radio.Group
        label="Network"
        value={wish.network}
        onChange={(value) =>
          set({ network: NETWORKS.find((network) => network.value === value)?.value ?? 'isolated' })
        }
      >
        <Stack gap="xs" mt="xs">
          {NETWORKS.map((network) => (
            <Radio key={network.value} {...network} />
          ))}
        </Stack>
      </Radio.Group>
      {hasPorts && (
        <TextInput
          label="Ports to reach"
          description="Ports of the machine, such as 22, 80. They are reached on the loopback address of the host."
          pattern="[0-9,; ]*"
          value={wish.ports}
          onChange={(event) => set({ ports: event.currentTarget.value })}
          error={faultIn(faults, 'network.forwards')}
        />
      )}
      {wish.network === 'bridge' && (
        <TextInput
          label="Bridge"
          required
          placeholder="br0"
          value={wish.bridge}
          onChange={(event) => set({ bridge: event.currentTarget.value })}
          error={faultIn(faults, 'network.bridge')}
        />
      )}
    </>
  );
}

export function FolderField({ wish, set, faults }: WishProps) {
  const isNeeded = isOfFiles(wish);
  return (
    <TextInput
      label="Folder"
      description={
        isNeeded
          ? 'Where the host lays the files of the disks.'
          : 'Where the host keeps what the machine writes. Empty: a folder of the agent.'
      }
      required={isNeeded}
      placeholder="/srv/machines"
      value={wish.targetPath}
      onChange={(event) => set({ targetPath: event.currentTarget.value })}
      error={faults['targetPath']}
    />
  );
}
