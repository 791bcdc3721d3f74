import type { GuestDefinition, GuestDisk } from './guest-definition.ts';

/** The command line of a machine. Pure. */

/** The names of files in the folder of a machine. */
export const GUEST_FILES = {
  monitor: 'qmp.sock',
  console: 'console.sock',
  firmwareCode: 'firmware-code.fd',
  firmwareVariables: 'firmware-variables.fd',
  errors: 'qemu.log',
  process: 'qemu.pid',
} as const;

export type Accelerator = 'kvm' | 'tcg';

/** What the guest writes on its serial line: the last of it is kept, in the memory of qemu. */
const SERIAL_BYTES = 64 * 1024;
const SERIAL = 'serial0';

export const nodeOf = (index: number) => `disk${index}`;
export const baseOf = (index: number) => `disk${index}-base`;

/**
 * qemu runs in the folder of the machine, so that all file names are short and plain: the path of a socket may have
 * 107 characters. Options with values of others are JSON, where a comma or a quotation mark means nothing.
 */
export function guestArguments(guest: GuestDefinition, accelerator: Accelerator): string[] {
  const { id, memoryMiB, processors, bootMode } = guest;
  const isUefi = bootMode === 'uefi';
  return [
    '-nodefaults',
    '-no-user-config',
    '-name',
    `muster-${id}`,
    '-uuid',
    id,
    '-machine',
    `q35${isUefi ? ',pflash0=code,pflash1=variables' : ''}`,
    '-accel',
    accelerator,
    '-cpu',
    accelerator === 'kvm' ? 'host' : 'max',
    '-m',
    String(memoryMiB),
    '-smp',
    String(processors),
    '-display',
    'none',
    '-vga',
    'std',
    '-vnc',
    `unix:${GUEST_FILES.console}`,
    '-chardev',
    `ringbuf,id=${SERIAL},size=${SERIAL_BYTES}`,
    '-serial',
    `chardev:${SERIAL}`,
    '-qmp',
    `unix:${GUEST_FILES.monitor},server=on,wait=off`,
    '-pidfile',
    GUEST_FILES.process,
    '-rtc',
    'base=utc',
    '-device',
    'virtio-rng-pci',
    ...(isUefi ? firmware() : []),
    ...guest.disks.flatMap((disk, index) => diskArguments(disk, index, guest.bus)),
    ...networkArguments(guest),
  ];
}

const firmware = () => [
  ...blockdev({
    driver: 'file',
    'node-name': 'code',
    filename: GUEST_FILES.firmwareCode,
    'read-only': true,
  }),
  ...blockdev({ driver: 'file', 'node-name': 'variables', filename: GUEST_FILES.firmwareVariables }),
];

const blockdev = (node: Record<string, unknown>) => ['-blockdev', JSON.stringify(node)];

function diskArguments(disk: GuestDisk, index: number, bus: GuestDefinition['bus']): string[] {
  const drive = nodeOf(index);
  const device = {
    drive,
    id: `device-${drive}`,
    bootindex: index,
    // A guest whose disk fails or is full is stopped, and loses nothing: it can go on when that is mended.
    werror: 'stop',
    rerror: 'stop',
    ...(disk.sectorBytes === 512
      ? {}
      : { logical_block_size: disk.sectorBytes, physical_block_size: disk.sectorBytes }),
  };
  const driver =
    bus === 'virtio' ? { driver: 'virtio-blk-pci' } : { driver: 'ide-hd', bus: `ide.${index % 6}` };
  return [...blockdev(diskNode(disk, index)), '-device', JSON.stringify({ ...driver, ...device })];
}

function diskNode({ file, format, base }: GuestDisk, index: number): Record<string, unknown> {
  const node = {
    driver: format,
    'node-name': nodeOf(index),
    discard: 'unmap',
    file: { driver: 'file', filename: file },
  };
  return base === undefined ? node : { ...node, backing: baseNode(base, index) };
}

/** The bytes of a disk within a file. */
export const baseNode = (
  { file, offset, sizeBytes }: NonNullable<GuestDisk['base']>,
  index: number,
): Record<string, unknown> => ({
  driver: 'raw',
  'node-name': baseOf(index),
  'read-only': true,
  offset,
  size: sizeBytes,
  file: { driver: 'file', 'node-name': `${baseOf(index)}-file`, 'read-only': true, filename: file },
});

/** Guests without drivers for virtio find a card that nearly every system knows. */
const CARDS = { virtio: 'virtio-net-pci', sata: 'e1000e' } as const;

function networkArguments({ network, macAddress: mac, bus }: GuestDefinition): string[] {
  if (network.type === 'none') return [];
  const device = ['-device', JSON.stringify({ driver: CARDS[bus], netdev: 'net0', mac })];
  if (network.type === 'bridge') return ['-netdev', `bridge,id=net0,br=${network.bridge}`, ...device];
  const forwards = network.forwards.map(
    ({ hostPort, guestPort }) => `,hostfwd=tcp:127.0.0.1:${hostPort}-:${guestPort}`,
  );
  const isolation = network.isIsolated ? ',restrict=on' : '';
  return ['-netdev', `user,id=net0${isolation}${forwards.join('')}`, ...device];
}
