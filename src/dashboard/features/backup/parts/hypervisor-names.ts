import type { FoundMachine } from '../../../api/index.ts';

export type Hypervisor = FoundMachine['hypervisor'];

/** What people call the hypervisors. */
export const HYPERVISOR_NAMES: Readonly<Record<Hypervisor, string>> = { hyperv: 'Hyper-V', kvm: 'KVM' };
