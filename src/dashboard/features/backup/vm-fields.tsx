import { Group, NumberInput, Radio, Stack, TextInput, Select, SimpleGrid } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, useEffect, type ReactNode } from 'react';
import { ENGINE_MISSING_CAPABILITY } from '../../../protocol/index.ts';
import { type VmEstimate, type BackupSnapshot, type Input, type Device, call } from '../../api/index.ts';
import { formatBytes, formatCount, formatCounted, Loaded, FactTable } from '../../ui/index.ts';
import type { DetailsOf } from './texts.ts';
import { deviceName, useDevices } from './selects.tsx';
import { bootModeText, ConsistencyBadge } from './facts.tsx';

type Body = Input<'POST /backup/restore/as-vm'>['body'];
export type DiskFormat = NonNullable<Body['format']>;
type NetworkChoice = 'isolated' | 'host' | 'bridge' | 'none';

/** The source of a virtual machine. */
export interface MachineSource {
  snapshot: BackupSnapshot;
  /** For a snapshot of several machines: which of them. */
  machine?: DetailsOf<'machines'>['machines'][number] | undefined;
}

/** The values of the form for a machine of a snapshot. */
export interface MachineWish {
  deviceId: string | undefined;
  vmName: string;
  /** `undefined`: as the estimate has it. Empty fields of numbers are text. */
  memoryMb: number | string | undefined;
  cpuCount: number | string | undefined;
  diskSizeGb: number | string;
  network: NetworkChoice;
  ports: string;
  bridge: string;
  targetPath: string;
  format: DiskFormat;
  /** The last partition grows with the first disk. */
  grow: boolean;
  start: boolean;
}

export interface WishProps {
  wish: MachineWish;
  set: (change: Partial<MachineWish>) => void;
  /** The rules that fields break, by their paths. */
  faults: Record<string, string>;
}

export function useMachineWish({ snapshot: { details }, machine }: MachineSource) {
  const [wish, setWish] = useState<MachineWish>({
    deviceId: undefined,
    vmName: machine?.name ?? (details?.kind === 'image' ? details.machine : ''),
    memoryMb: undefined,
    cpuCount: undefined,
    diskSizeGb: '',
    network: 'isolated',
    ports: '',
    bridge: '',
    targetPath: '',
    format: 'qcow2',
    grow: false,
    start: true,
  });
  const set = (change: Partial<MachineWish>) => setWish((before) => ({ ...before, ...change }));
  return { wish, set };
}

/** The part of the request that both ways of making a machine share. */
export function toBody({ snapshot, machine }: MachineSource, wish: MachineWish) {
  const { deviceId, vmName, memoryMb, cpuCount, targetPath } = wish;
  return {
    snapshotId: snapshot.id,
    ...(machine === undefined ? {} : { machine: machine.id }),
    vmName: vmName.trim(),
    network: toNetwork(wish),
    vmSpecs: {
      ...(typeof memoryMb === 'number' ? { memoryMb } : {}),
      ...(typeof cpuCount === 'number' ? { cpuCount } : {}),
    },
    ...(deviceId === undefined ? {} : { targetDeviceId: deviceId }),
    ...(targetPath.trim() === '' ? {} : { targetPath: targetPath.trim() }),
  } satisfies Partial<Body>;
}

/** Disks for Hyper-V are only files: no machine is made of them here. */
export const isOfFiles = ({ format }: Pick<MachineWish, 'format'>): boolean => format === 'vhdx';

/** The request for a machine whose disks are copied. */
export function toRestoreBody(source: MachineSource, wish: MachineWish): Body {
  const { diskSizeGb, format, grow, start } = wish;
  const { network, ...body } = toBody(source, wish);
  const isSized = typeof diskSizeGb === 'number';
  return {
    ...body,
    hypervisor: 'kvm',
    vmSpecs: { ...body.vmSpecs, ...(isSized ? { diskSizeGb } : {}) },
    ...(isSized ? { grow } : {}),
    format,
    ...(isOfFiles(wish) ? { start: false } : { network, start }),
  };
}

function toNetwork({ network, ports, bridge }: MachineWish): NonNullable<Body['network']> {
  if (network === 'none') return { type: 'none' };
  if (network === 'bridge') return { type: 'bridge', bridge: bridge.trim() };
  return { type: 'user', isIsolated: network === 'isolated', forwards: portsIn(ports) };
}

/** "22, 80" */
const portsIn = (text: string): number[] =>
  text
    .split(/[\s,;]+/)
    .filter((word) => word !== '')
    .map(Number);

/** The first rule that a field, or a part of it, breaks. */
const faultIn = (faults: Record<string, string>, field: string): string | undefined =>
  Object.entries(faults).find(([path]) => path === field || path.startsWith(`${field}.`))?.[1];

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
    description: 'It reaches nothing, so it cannot disturb its original if that still runs.',
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

const MIB = 2 ** 20;

/** Loads the needs of a machine of the snapshot, and then shows the form. */
export function WithEstimate({
  source: { snapshot, machine },
  children,
}: {
  source: MachineSource;
  children: (estimate: VmEstimate) => ReactNode;
}) {
  const body = { snapshotId: snapshot.id, ...(machine === undefined ? {} : { machine: machine.id }) };
  const estimate = useQuery({
    queryKey: ['POST /backup/restore/as-vm/estimate', body],
    queryFn: ({ signal }) => call('POST /backup/restore/as-vm/estimate', { body }, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Loaded query={estimate} what="Estimating what the machine needs">
      {children}
    </Loaded>
  );
}

export function EstimateFacts({
  source: { snapshot, machine },
  estimate,
}: {
  source: MachineSource;
  estimate: VmEstimate;
}) {
  const { memoryMb, cpuCount, diskSizeGb, disks, osVersion, bootMode, storedBytes } = estimate;
  const image = snapshot.details?.kind === 'image' ? snapshot.details : undefined;
  const consistency = (machine ?? image)?.consistency;
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="xs">
      <FactTable
        label="What the machine needs"
        facts={[
          ['Memory', formatBytes(memoryMb * MIB)],
          ['Processors', formatCount(cpuCount)],
          ['Disks', `${formatCounted(disks.length, 'disk')}, ${formatCount(diskSizeGb)} GiB at most`],
          ['In use', storedBytes === null ? undefined : formatBytes(storedBytes)],
        ]}
      />
      <FactTable
        label="What the machine is"
        facts={[
          ['System', osVersion ?? 'Not known'],
          ['Starts by', bootModeText(bootMode)],
          [
            'Consistency',
            consistency === undefined ? undefined : (
              <ConsistencyBadge key="consistency" value={consistency} />
            ),
          ],
        ]}
      />
    </SimpleGrid>
  );
}

/** Devices whose agent can do it, and which have restic. */
const isAble = ({ capabilities }: Device, capability: string): boolean =>
  capabilities.includes(capability) && !capabilities.includes(ENGINE_MISSING_CAPABILITY);

/** The devices of an organization that can be the host of a machine; the first choice is the one that was backed up. */
export function HostSelect({
  orgId,
  first,
  capability,
  value,
  onChange,
  error,
}: {
  orgId: string;
  first: string;
  capability: string;
  value: string | undefined;
  onChange: (id: string | undefined) => void;
  error: string | undefined;
}) {
  const hosts = useDevices(orgId).filter((device) => isAble(device, capability));
  const usual =
    hosts.find(({ id }) => id === first) ?? hosts.find(({ status }) => status === 'online') ?? hosts[0];
  const chosen = value ?? usual?.id;
  // The form sends what is shown.
  useEffect(() => {
    if (value === undefined && chosen !== undefined) onChange(chosen);
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [value, chosen]);
  return (
    <Select
      label="Host"
      required
      searchable
      allowDeselect={false}
      limit={100}
      description={
        hosts.length === 0
          ? 'No device of the organization can start machines. It takes one with Linux, the agent, restic and qemu.'
          : 'A device of the organization with Linux, restic and qemu. One that is away begins when it returns.'
      }
      nothingFoundMessage="No such host"
      data={hosts.map((device) => ({
        value: device.id,
        label: device.status === 'online' ? deviceName(device) : `${deviceName(device)} (${device.status})`,
      }))}
      value={chosen ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      error={error}
    />
  );
}
