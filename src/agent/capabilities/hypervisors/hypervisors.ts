import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import { type HypervisorKind, hypervisorCapability, MachineErrorCode } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { findProgram, systemProgram } from '../../os/child-process.ts';
import { HyperV } from './hyperv.ts';
import { powerShell } from './hyperv-scripts.ts';
import { Kvm } from './kvm.ts';
import { virsh } from './kvm-disks.ts';
import type { Hypervisor } from './hypervisor.ts';

interface Named {
  id: string;
  name: string;
}

interface Choice<M extends Named> {
  chosen: M[];
  /** Names and ids that match no machine or several. */
  refused: { name: string; code: string; message: string }[];
}

/** Finds machines by the ids or names in a configuration. An id takes precedence over an equal name. */
export function chooseMachines<M extends Named>(
  machines: readonly M[],
  wanted: 'all' | readonly string[],
): Choice<M> {
  if (wanted === 'all') return { chosen: [...machines], refused: [] };
  const chosen = new Map<string, M>();
  const refused: Choice<M>['refused'] = [];
  for (const name of wanted) {
    const byId = machines.find(({ id }) => id === name.toLowerCase());
    const found = byId === undefined ? machines.filter((machine) => isCalled(machine, name)) : [byId];
    const [one] = found;
    if (one !== undefined && found.length === 1) chosen.set(one.id, one);
    else if (one === undefined) {
      refused.push({
        name,
        code: MachineErrorCode.machineMissing,
        message: 'There is no machine with this name or id.',
      });
    } else {
      const message = `${found.length} machines have this name. Use the id of one.`;
      refused.push({ name, code: MachineErrorCode.machineAmbiguous, message });
    }
  }
  return { chosen: [...chosen.values()], refused };
}

/** Hypervisors of Windows ignore case in names. */
const isCalled = ({ name }: Named, wanted: string) => name.toLowerCase() === wanted.toLowerCase();

/** The hypervisors of this machine. */
export class Hypervisors {
  readonly #all: ReadonlyMap<HypervisorKind, Hypervisor>;

  constructor(all: readonly Hypervisor[]) {
    this.#all = new Map(all.map((each) => [each.kind, each]));
  }

  get isEmpty(): boolean {
    return this.#all.size === 0;
  }

  get capabilities(): string[] {
    return [...this.#all.keys()].map(hypervisorCapability);
  }

  recover(): void {
    for (const hypervisor of this.#all.values()) hypervisor.recover();
  }

  /** Throws `AgentError` if this machine does not have it. */
  get(kind: HypervisorKind): Hypervisor {
    const found = this.#all.get(kind);
    if (found !== undefined) return found;
    throw new AgentError(MachineErrorCode.hypervisorMissing, `This machine has no hypervisor ${kind}.`);
  }
}

/** The hypervisors that are installed when the agent starts. Installing Hyper-V restarts Windows. */
export async function findHypervisors(
  warn: (message: string) => void,
  platform: NodeJS.Platform = process.platform,
): Promise<Hypervisors> {
  const hyperv = (await hasHyperV(platform))
    ? new HyperV(powerShell(systemProgram('powershell')))
    : undefined;
  const kvm = platform === 'linux' ? await findKvm(warn) : undefined;
  return new Hypervisors([hyperv, kvm].filter((each) => each !== undefined));
}

/** The machines belong to the system, so an agent that runs as another user does not see them. */
const SYSTEM_MACHINES = 'qemu:///system';
/**
 * The single daemon of older hosts, and the modular one of newer hosts. With systemd, the sockets exist before the
 * daemons run.
 */
const SOCKETS = ['/run/libvirt/libvirt-sock', '/run/libvirt/virtqemud-sock'];

async function findKvm(warn: (message: string) => void): Promise<Kvm | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const sockets = await Promise.all(SOCKETS.map((socket) => isThere(socket)));
  const [client, nbd, image] = [
    await findProgram(['virsh']),
    await findProgram(['qemu-nbd']),
    await findProgram(['qemu-img']),
  ];
  if (!sockets.some(Boolean) || client === undefined || nbd === undefined || image === undefined) {
    return undefined;
  }
  return new Kvm({ run: virsh(client, SYSTEM_MACHINES), nbd, image, warn });
}

/** The service of Hyper-V, which is installed with its role. */
async function hasHyperV(platform: NodeJS.Platform): Promise<boolean> {
  if (platform !== 'win32') return false;
  const root = process.env['SystemRoot'] ?? String.raw`C:\Windows`;
  return isThere(path.win32.join(root, 'System32', 'vmms.exe'));
}

const isThere = (file: string) =>
  access(file, constants.F_OK).then(
    () => true,
    () => false,
  );
