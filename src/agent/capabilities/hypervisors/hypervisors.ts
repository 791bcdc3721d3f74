import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import { type HypervisorKind, hypervisorCapability, MachineErrorCode } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { findProgram } from '../../os/processes/find-program.ts';
import { systemProgram } from '../../os/processes/system-program.ts';
import { HyperV } from './hyperv/hyperv.ts';
import { powerShell } from './hyperv/powershell.ts';
import { Kvm } from './kvm/kvm.ts';
import { virsh } from './kvm/virsh.ts';
import type { Hypervisor } from './hypervisor.ts';

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

  /** Throws `AgentError` where this machine does not have it. */
  get(kind: HypervisorKind): Hypervisor {
    const found = this.#all.get(kind);
    if (found !== undefined) return found;
    throw new AgentError(MachineErrorCode.hypervisorMissing, `This machine has no hypervisor ${kind}.`);
  }
}

/** Those that are installed when the agent starts. Windows starts anew when Hyper-V is installed. */
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

/** Its machines belong to the system, so an agent of another user does not see them. */
const SYSTEM_MACHINES = 'qemu:///system';
/** The one daemon of older hosts, and that of newer ones. With systemd, the sockets are there before the daemons. */
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

/** The service of Hyper-V, which comes with its role. */
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
