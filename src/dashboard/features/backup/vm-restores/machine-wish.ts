import { useState } from 'react';
import type { BackupSnapshot, Input } from '../../../api/index.ts';
import type { DetailsOf } from '../parts/content-text.ts';

type Body = Input<'POST /backup/restore/as-vm'>['body'];
export type DiskFormat = NonNullable<Body['format']>;
export type NetworkChoice = 'isolated' | 'host' | 'bridge' | 'none';

/** What a virtual machine is made of. */
export interface MachineSource {
  snapshot: BackupSnapshot;
  /** Of a snapshot of several machines: which of them. */
  machine?: DetailsOf<'machines'>['machines'][number] | undefined;
}

/** What a person wants a machine of a snapshot to be, as the form holds it. */
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

/** What both ways of making a machine are sent. */
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

/** What a machine is sent whose disks are copied. */
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
export const faultIn = (faults: Record<string, string>, field: string): string | undefined =>
  Object.entries(faults).find(([path]) => path === field || path.startsWith(`${field}.`))?.[1];
