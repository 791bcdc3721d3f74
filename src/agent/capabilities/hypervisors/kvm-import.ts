import { randomUUID, randomBytes } from 'node:crypto';
import { chmod, open, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { MACHINE_FILE, openMachine, type OpenedMachine } from '../../../engine/index.ts';
import { MachineErrorCode } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { printable } from '../../core/plain-text.ts';
import { readOutput } from '../../os/child-process.ts';
import { listBridges } from '../../os/qemu/disk-images.ts';
import { readFrom } from '../../os/read-disk.ts';
import { xmlText } from '../../os/service-definitions.ts';
import type { WantedMachine } from './hypervisor.ts';
import { kvmFailed, type Virsh } from './kvm-disks.ts';
import { parseDomain, type Domain, type DomainNetworkCard } from './kvm-domain.ts';

/** Creates a libvirt machine from an export. The files of the export are untrusted. */

const COPY_MS = 24 * 3_600_000;
const DEFINITION_MAX = 1_000_000;
const NAMES_MAX = 100;

interface Import {
  folder: string;
  wanted: WantedMachine;
  /** The name of the file in the folder. */
  definition: string;
}

export async function importDomain(
  { run, image }: { run: Virsh; image: string },
  { folder, wanted: { vmName, generateNewId, targetFolder }, definition }: Import,
  signal: AbortSignal,
): Promise<{ machineId: string; vmName: string }> {
  const from = parseDomain(await readSmall(path.join(folder, definition)));
  const archive = path.join(folder, MACHINE_FILE);
  const { disks } = await openArchive(archive);
  const id = generateNewId ? randomUUID() : from.id;
  const known = await namesOf(run, signal);
  if (!generateNewId && known.ids.has(id)) throw incompatible('The machine is still there.');
  const name = chooseName(vmName, from.name, known.names);
  const made = [];
  for (const [index, disk] of disks.entries()) {
    const file = path.join(targetFolder, `disk${index}.qcow2`);
    await copyDisk(image, { archive, disk, file }, signal);
    const before = from.disks.find(({ target }) => target === disk.name);
    const { bus = 'virtio', sectorBytes = 512 } = before ?? {};
    made.push({ file, target: disk.name, bus, sectorBytes });
  }
  // The user of qemu must be able to reach the disks. libvirt gives it access to the files themselves.
  await chmod(targetFolder, 0o711);
  await chmod(path.dirname(targetFolder), 0o711);
  const networks = new Set(lines(await run(['net-list', '--all', '--name'], { signal }).catch(() => '')));
  const bridges = new Set(await listBridges());
  const xml = newDomainXml(from, { id, name, isCopy: generateNewId, disks: made, networks, bridges });
  const file = path.join(targetFolder, 'definition.xml');
  await writeFile(file, xml, { mode: 0o600 });
  await run(['define', '--file', file], { signal });
  return { machineId: id, vmName: printable(name, 256) };
}

async function readSmall(file: string): Promise<string> {
  const found = await stat(file).catch(() => undefined);
  if (found === undefined || found.size > DEFINITION_MAX) {
    throw incompatible('The snapshot has no definition of the machine.');
  }
  return readFile(file, 'utf8');
}

async function openArchive(file: string): Promise<OpenedMachine> {
  const handle = await open(file, 'r').catch(() => undefined);
  if (handle === undefined) throw incompatible('The snapshot has no image of the machine.');
  try {
    return await openMachine(readFrom(handle));
  } finally {
    await handle.close();
  }
}

interface Copy {
  archive: string;
  disk: OpenedMachine['disks'][number];
  file: string;
}

async function copyDisk(
  program: string,
  { archive, disk: { offset, sizeBytes }, file }: Copy,
  signal: AbortSignal,
): Promise<void> {
  const source = { driver: 'raw', offset, size: sizeBytes, file: { driver: 'file', filename: archive } };
  const words = ['convert', '-q', '-W', '-O', 'qcow2', `json:${JSON.stringify(source)}`, `file:${file}`];
  await readOutput(program, words, { signal, timeoutMs: COPY_MS }).catch((error: unknown) => {
    throw kvmFailed(error instanceof Error ? error.message : String(error));
  });
  signal.throwIfAborted();
}

async function namesOf(run: Virsh, signal: AbortSignal) {
  const [ids, names] = await Promise.all([
    run(['list', '--all', '--uuid'], { signal }),
    run(['list', '--all', '--name'], { signal }),
  ]);
  return { ids: new Set(lines(ids).map((id) => id.toLowerCase())), names: new Set(lines(names)) };
}

const lines = (text: string) => text.split('\n').filter((line) => line.trim() !== '');

/** libvirt allows each name once. A name that the user has chosen is not changed. */
function chooseName(wanted: string | undefined, before: string, taken: ReadonlySet<string>): string {
  const name = wanted ?? before;
  if (name.includes('/')) throw incompatible('The name of a machine of KVM cannot contain a slash.');
  if (!taken.has(name)) return name;
  if (wanted !== undefined) throw incompatible('There is a machine with this name already.');
  for (let count = 1; count < NAMES_MAX; count += 1) {
    const next = `${name}-restored${count === 1 ? '' : `-${count}`}`;
    if (!taken.has(next)) return next;
  }
  throw incompatible('There are too many machines with this name already.');
}

const incompatible = (message: string) => new AgentError(MachineErrorCode.incompatible, message);

/**
 * The definition of a restored machine. It is built from a few facts, because the one in the snapshot could name any
 * file, device or program of this host.
 */

interface NewDomain {
  id: string;
  name: string;
  /** Whether the machine gets a new id. */
  isCopy: boolean;
  disks: readonly { file: string; target: string; bus: string; sectorBytes: number }[];
  /** Networks and bridges of this host. A card of any other network is left disconnected. */
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
