import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import { type HypervisorKind, hypervisorCapability, MachineErrorCode } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { systemProgram } from '../../os/processes/system-program.ts';
import { HyperV } from './hyperv/hyperv.ts';
import { powerShell } from './hyperv/powershell.ts';
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

  /** Throws `AgentError` where this machine does not have it. */
  get(kind: HypervisorKind): Hypervisor {
    const found = this.#all.get(kind);
    if (found !== undefined) return found;
    throw new AgentError(MachineErrorCode.hypervisorMissing, `This machine has no hypervisor ${kind}.`);
  }
}

/** Those that are installed when the agent starts. Windows starts anew when Hyper-V is installed. */
export async function findHypervisors(platform: NodeJS.Platform = process.platform): Promise<Hypervisors> {
  return new Hypervisors(
    (await hasHyperV(platform)) ? [new HyperV(powerShell(systemProgram('powershell')))] : [],
  );
}

/** The service of Hyper-V, which comes with its role. */
async function hasHyperV(platform: NodeJS.Platform): Promise<boolean> {
  if (platform !== 'win32') return false;
  const root = process.env['SystemRoot'] ?? String.raw`C:\Windows`;
  return access(path.win32.join(root, 'System32', 'vmms.exe'), constants.F_OK).then(
    () => true,
    () => false,
  );
}
