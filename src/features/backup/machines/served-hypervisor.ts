import type { HypervisorKind } from '../../../protocol/index.ts';
import type { SourceKind } from '../configs/sources.schema.ts';

/** A hypervisor with routes of its own. */
export interface ServedHypervisor {
  /** Also the kind of the configurations that back up its machines. */
  kind: HypervisorKind & SourceKind;
  /** Below `/backup/`. */
  prefix: string;
  /** For people. */
  name: string;
}

export const HYPERV: ServedHypervisor = { kind: 'hyperv', prefix: 'hyperv', name: 'Hyper-V' };
export const KVM: ServedHypervisor = { kind: 'kvm', prefix: 'kvm', name: 'KVM' };
