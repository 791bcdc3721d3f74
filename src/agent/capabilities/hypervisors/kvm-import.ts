import { randomUUID } from 'node:crypto';
import { chmod, open, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { MACHINE_FILE, openMachine, type OpenedMachine } from '../../../../engine/index.ts';
import { MachineErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { printable } from '../../../core/plain-text.ts';
import { readFrom } from '../../../os/partitions/read-at.ts';
import { readOutput } from '../../../os/processes/child-process.ts';
import { listBridges } from '../../../os/qemu/qemu-programs.ts';
import type { WantedMachine } from '../hypervisor.ts';
import { parseDomain } from './domain.ts';
import { newDomainXml } from './new-domain.ts';
import { kvmFailed, type Virsh } from './virsh.ts';

/** Makes a machine of libvirt of what was exported. What lies in the folder is foreign text. */

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
  // The user of qemu has to get to the disks. libvirt gives it the files themselves.
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

/** libvirt has each name once. A name that a person has chosen is not changed. */
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
