import { useState } from 'react';
import type { BackupSnapshot, Input } from '../../../api/index.ts';

type Body = Input<'POST /backup/restore/as-vm'>['body'];
export type NetworkChoice = 'isolated' | 'host' | 'bridge' | 'none';

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
  format: 'qcow2' | 'raw';
  start: boolean;
}

export interface WishProps {
  wish: MachineWish;
  set: (change: Partial<MachineWish>) => void;
  /** The rules that fields break, by their paths. */
  faults: Record<string, string>;
}

export function useMachineWish({ details }: BackupSnapshot) {
  const [wish, setWish] = useState<MachineWish>({
    deviceId: undefined,
    vmName: details?.kind === 'image' ? details.machine : '',
    memoryMb: undefined,
    cpuCount: undefined,
    diskSizeGb: '',
    network: 'isolated',
    ports: '',
    bridge: '',
    targetPath: '',
    format: 'qcow2',
    start: true,
  });
  const set = (change: Partial<MachineWish>) => setWish((before) => ({ ...before, ...change }));
  return { wish, set };
}

/** What both ways of making a machine are sent. */
export function toBody({ id: snapshotId }: BackupSnapshot, wish: MachineWish) {
  const { deviceId, vmName, memoryMb, cpuCount, targetPath } = wish;
  return {
    snapshotId,
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
