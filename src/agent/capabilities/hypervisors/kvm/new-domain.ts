import { randomBytes } from 'node:crypto';
import { xmlText } from '../../../os/service/xml-text.ts';
import type { Domain, DomainNetworkCard } from './domain.ts';

/**
 * The definition of a restored machine. It is written anew from a few facts, because the one in the snapshot could name any
 * file, device or program of this host.
 */

export interface NewDomain {
  id: string;
  name: string;
  /** Whether it is another machine than the one that was backed up. */
  isCopy: boolean;
  disks: readonly { file: string; target: string; bus: string; sectorBytes: number }[];
  /** Networks and bridges that this host has. A card of another one gets no cable. */
  networks: ReadonlySet<string>;
  bridges: ReadonlySet<string>;
}

const BUSES: ReadonlySet<string> = new Set(['virtio', 'sata', 'scsi', 'ide', 'usb']);
const CARDS: ReadonlySet<string> = new Set(['virtio', 'e1000', 'e1000e', 'rtl8139']);
const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i;

export function newDomainXml(from: Domain, wanted: NewDomain): string {
  const isQ35 = from.machine.includes('q35') || from.bootMode === 'uefi';
  const disks = wanted.disks.map(({ bus, ...disk }) => ({ ...disk, bus: busOf(bus, isQ35) }));
  const type = from.type === 'kvm' ? 'kvm' : 'qemu';
  return `<domain type='${type}'>
  <name>${xmlText(wanted.name)}</name>
  <uuid>${wanted.id}</uuid>
  <memory unit='KiB'>${Math.ceil(from.memoryBytes / 1024)}</memory>
  <vcpu>${from.processors}</vcpu>
  <os${from.bootMode === 'uefi' ? " firmware='efi'" : ''}>
    <type arch='x86_64' machine='${isQ35 ? 'q35' : 'pc'}'>hvm</type>
    <boot dev='hd'/>
  </os>
  <features><acpi/><apic/></features>
${type === 'kvm' ? "  <cpu mode='host-passthrough'/>\n" : ''}  <clock offset='${from.isLocalTime ? 'localtime' : 'utc'}'/>
  <devices>
${disks
  .map(
    ({ file, target, bus, sectorBytes }) => `    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/>
      <source file='${attribute(file)}'/>
      <target dev='${attribute(target)}' bus='${bus}'/>
${sectorBytes === 512 ? '' : `      <blockio logical_block_size='${sectorBytes}' physical_block_size='${sectorBytes}'/>\n`}    </disk>`,
  )
  .join('\n')}
${disks.some(({ bus }) => bus === 'scsi') ? "    <controller type='scsi' model='virtio-scsi'/>\n" : ''}${from.cards
  .map((card) => cardXml(card, wanted))
  .join('\n')}
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <graphics type='vnc' autoport='yes' listen='127.0.0.1'/>
    <video><model type='vga'/></video>
  </devices>
</domain>
`;
}

/** The newer machine type has no IDE. */
const busOf = (bus: string, isQ35: boolean) =>
  !BUSES.has(bus) ? 'virtio' : bus === 'ide' && isQ35 ? 'sata' : bus;

function cardXml({ mac, model, network, bridge }: DomainNetworkCard, wanted: NewDomain): string {
  const address = wanted.isCopy || mac === null || !MAC.test(mac) ? newMac() : mac;
  const card = `      <mac address='${address}'/>
      <model type='${model !== null && CARDS.has(model) ? model : 'virtio'}'/>`;
  if (network !== null && wanted.networks.has(network)) {
    return `    <interface type='network'>
      <source network='${attribute(network)}'/>
${card}
    </interface>`;
  }
  if (bridge !== null && wanted.bridges.has(bridge)) {
    return `    <interface type='bridge'>
      <source bridge='${attribute(bridge)}'/>
${card}
    </interface>`;
  }
  return `    <interface type='user'>
${card}
      <link state='down'/>
    </interface>`;
}

const newMac = () =>
  `52:54:00:${[...randomBytes(3)].map((byte) => byte.toString(16).padStart(2, '0')).join(':')}`;

const attribute = (text: string) => xmlText(text).replaceAll("'", '&apos;').replaceAll('"', '&quot;');
