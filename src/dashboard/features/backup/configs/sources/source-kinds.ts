import type { Sources } from './source-form.ts';

/** What people call the kinds of sources. A kind without a name is one that the dialog cannot show yet. */
export const KIND_NAMES: { readonly [K in Sources['kind']]?: string } = {
  files: 'Files',
  image: 'Whole disks',
  database: 'Databases',
  hyperv: 'Machines of Hyper-V',
  kvm: 'Machines of KVM',
};
